import pytest

from image_pipeline.doctor import figures
from image_pipeline.doctor.figures import (
    Rate,
    middle_rate,
    share_of_others,
    tell_own,
    time_batches,
)

pytestmark = pytest.mark.unit


class Clocks:
    """Clocks that go on only when a batch is made."""

    def __init__(self):
        self.wall_s, self.cpu_s = 100.0, 7.0

    def perf_counter(self):
        return self.wall_s

    def process_time(self):
        return self.cpu_s

    def make(self, sizes, wall_s=1.0, cpu_s=2.0):
        for size in sizes:
            self.wall_s += wall_s
            self.cpu_s += cpu_s
            yield size


@pytest.fixture
def clocks(monkeypatch):
    fake = Clocks()
    monkeypatch.setattr(figures, "time", fake)
    return fake


def test_the_warm_up_does_not_count(clocks):
    rate = time_batches(clocks.make([1000, 1000] + [10] * 50), seconds=6, warm_up=2)
    assert rate == Rate(images=60, images_per_s=10.0, cpu_s_an_image=0.2)
    assert rate.ms_an_image == 100


def test_a_slow_warm_up_ends_when_the_time_is_over(clocks):
    sizes = clocks.make([1000] * 3 + [10] * 50)
    # The first batch does not count: it compiles. The next two take 2 s, more than 1.5.
    assert time_batches(sizes, seconds=1.5, warm_up=20).images == 40


def test_there_are_some_batches_however_short_the_time(clocks):
    assert time_batches(clocks.make([10] * 50), seconds=0.1, warm_up=0).images == 40
    assert time_batches(clocks.make([10] * 50), seconds=0.1, warm_up=0, least=7).images == 70


def test_batches_that_end_are_enough_if_there_is_one(clocks):
    assert time_batches(clocks.make([10, 5]), seconds=100, warm_up=0).images == 15
    with pytest.raises(ValueError, match="more than 2 batches, the warm-up"):
        time_batches(clocks.make([10, 5]), seconds=100, warm_up=2)


def test_the_middle_of_rounds_is_that_of_each_clock():
    rounds = [(1.0, 9.0), (3.0, 2.0), (2.0, 4.0)]
    rates = [Rate(images=10, images_per_s=wall, cpu_s_an_image=cpu) for wall, cpu in rounds]
    assert middle_rate(rates) == Rate(images=30, images_per_s=2.0, cpu_s_an_image=4.0)


def test_the_share_of_others_is_what_this_process_did_not_use():
    # Of 20 s of all cores, 12 were busy, and 4 of these with this process.
    assert share_of_others((100.0, 50.0, 10.0), (120.0, 62.0, 14.0)) == 0.4
    assert share_of_others((100.0, 50.0, 10.0), (120.0, 52.0, 14.0)) == 0
    assert share_of_others((1.0, 1.0, 1.0), (1.0, 1.0, 1.0)) == 0


def make_stages(*walls_and_cpus, cores=2):
    """Stages by the milliseconds of an image, of clock and processor, with all before each."""
    names = ("read", "decode", "views", "augment", "transform")
    return tell_own(
        {
            name: Rate(images=1000, images_per_s=1e3 / wall_ms, cpu_s_an_image=cpu_ms / 1e3)
            for name, (wall_ms, cpu_ms) in zip(names, walls_and_cpus, strict=False)
        },
        cores,
    )


def list_own(*walls_and_cpus, cores=2):
    stages = make_stages(*walls_and_cpus, cores=cores)
    return {name: stage.own_ms_an_image for name, stage in stages.items()}


def test_a_stages_own_cost_is_what_it_adds():
    assert list_own((1, 0.2), (5, 10), (8, 14), (10, 16)) == pytest.approx(
        {"read": 1, "decode": 4.9, "views": 3, "augment": 2}
    )


def test_a_stage_that_works_while_another_is_waited_for_costs_its_processor_time():
    # The disk takes 10 ms an image; random steps of 24 ms on 2 cores add only 2 to that.
    costs = list_own((10, 0.1), (10, 0.1), (10, 0.1), (12, 24.1))
    assert costs == pytest.approx({"read": 10, "decode": 0, "views": 0, "augment": 12})


def test_what_is_slower_than_a_later_stage_was_disturbed():
    costs = list_own((1, 1), (5, 4), (14, 9), (9, 8), (8, 7))
    expected = {"read": 1, "decode": 4, "views": 3, "augment": 0, "transform": 0}
    assert costs == pytest.approx(expected)
    assert list_own((2, 1), (1.5, 0.5), cores=1) == pytest.approx({"read": 1.5, "decode": 0})
