import pytest

from image_pipeline.doctor import clock
from image_pipeline.doctor.clock import OtherPrograms, Rate, middle_rate, time_batches

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
    monkeypatch.setattr(clock, "time", fake)
    return fake


def test_a_rate_in_other_words():
    rate = Rate(images=500, wall_s=2.0, cpu_s=3.0)
    assert (rate.images_per_s, rate.ms_an_image, rate.cpu_ms_an_image) == (250, 4, 6)


def test_the_warm_up_does_not_count(clocks):
    rate = time_batches(clocks.make([1000, 1000] + [10] * 50), seconds=6, warm_up=2)
    assert rate == Rate(images=60, wall_s=6.0, cpu_s=12.0)


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
    rates = [Rate(images=10, wall_s=wall_s, cpu_s=cpu_s) for wall_s, cpu_s in rounds]
    assert middle_rate(rates) == Rate(images=30, wall_s=6.0, cpu_s=12.0)


def test_the_share_of_others_is_what_this_process_did_not_use(monkeypatch):
    readings = iter([(100.0, 50.0, 10.0), (120.0, 62.0, 14.0)])
    monkeypatch.setattr(OtherPrograms, "_read", staticmethod(lambda: next(readings)))
    # Of 20 s of all cores, 12 were busy, and 4 of these with this process.
    assert OtherPrograms().read_share() == 0.4
