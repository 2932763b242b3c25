"""What is measured of the stages of a training, and what is said of it."""

import pytest

from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.doctor import figures
from image_pipeline.doctor.figures import (
    Figures,
    Rate,
    Stages,
    Storage,
    middle_rate,
    share_of_others,
    tell_own,
    time_batches,
)
from image_pipeline.doctor.verdict import advise, estimate_step_ms, judge

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
    with pytest.raises(ValueError, match="more batches are needed than the 2 of the warm-up"):
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


# Of 10 ms an image: reading 1, decoding 5, views 2, random steps 1.5, transform 0.5.
STAGES = make_stages((1, 0.2), (6, 10), (8, 14), (9.5, 17), (10, 18))


def make_figures(stages=STAGES, step_ms=40.0, held=None, cold=None, **values):
    step = Rate(images=10, images_per_s=1e4 / step_ms, cpu_s_an_image=0.0)
    defaults = {
        "stages": Stages(read_cold=cold, every_image=stages, held=held or {}, step=step),
        "together_ms": 100.0,
        "wait_ms": 60.0,
        "batch_size": 10,
        "cores": 2,
        "storage": make_storage(),
        "memory": (),
        "could_hold": False,
        "others_share": 0.0,
        "steps_a_call": 1,
        "calls": {},
    }
    return Figures(**(defaults | values))


def make_storage(encoding="jpeg", stored_bytes=50_000.0, pixel_bytes=150_000.0):
    return Storage(
        encoding=encoding, stored_bytes=stored_bytes, pixel_bytes=pixel_bytes, view_bytes=150_000.0
    )


def test_most_epochs_take_images_from_memory_where_they_are_held():
    held = make_stages((3, 5), (4, 6))
    figures = make_figures(held=held)
    assert (figures.usual, figures.input_ms) == (held, pytest.approx(40))
    assert (make_figures().usual, make_figures().input_ms) == (STAGES, pytest.approx(100))


@pytest.mark.parametrize(
    ("stages", "limit"),
    [
        (STAGES, "decode"),
        (make_stages((9, 0.2), (9.5, 1), (9.6, 1.2), (9.9, 1.8), (10, 2)), "read"),
        (make_stages((1, 0.2), (2, 2), (9, 14), (9.5, 17), (10, 18)), "views"),
        (make_stages((1, 0.2), (2, 2), (3, 4), (9.5, 17), (10, 18)), "augment"),
        (make_stages((1, 0.2), (2, 2), (3, 4), (4, 6), (10, 18)), "transform"),
        (make_stages((10, 0.1), (10, 0.1), (10, 0.1), (12, 24.1)), "augment"),
    ],
)
def test_the_costliest_stage_limits_where_the_model_waits(stages, limit):
    verdict = judge(make_figures(stages))
    assert (verdict.limit, verdict.wait_share) == (limit, 0.6)


def test_the_step_limits_where_the_model_hardly_waits():
    verdict = judge(make_figures(step_ms=250.0, together_ms=250.0, wait_ms=24.0))
    assert verdict.limit == "step"
    assert verdict.wait_share == 0.096
    assert verdict.headroom == pytest.approx(2.5)  # 250 ms a step, 100 ms a batch


def test_waiting_for_a_tenth_of_a_step_is_where_the_input_begins_to_limit():
    assert judge(make_figures(together_ms=100.0, wait_ms=10.0)).limit == "decode"
    assert judge(make_figures(together_ms=100.0, wait_ms=9.9)).limit == "step"


def test_sharing_the_processor_is_told_from_waiting():
    verdict = judge(make_figures(step_ms=100.0, together_ms=160.0, wait_ms=8.0))
    assert verdict.limit == "step"
    assert verdict.shared_share == pytest.approx(52 / 160)
    faster = judge(make_figures(step_ms=100.0, together_ms=90.0, wait_ms=1.0))
    assert faster.shared_share == pytest.approx(0)


@pytest.mark.parametrize(
    ("factors", "step_ms"),
    [
        ({}, 100),
        ({"decode": 0}, 50),
        ({"decode": 0.5}, 75),
        ({"read": 0, "decode": 0}, 40),  # the model's own step is the floor
        ({"decode": 0, "read": 4}, 80),  # 5 ms less and 3 ms more an image
        ({"read": 3}, 120),
    ],
)
def test_what_a_step_will_take(factors, step_ms):
    assert estimate_step_ms(make_figures(), factors) == pytest.approx(step_ms)


def test_a_step_never_gets_faster_than_the_costliest_stage():
    stages = make_stages((10, 0.1), (10, 0.1), (10, 0.1), (12, 24.1))
    figures = make_figures(stages, step_ms=5.0, together_ms=120.0)
    assert estimate_step_ms(figures, {"augment": 0}) == pytest.approx(100)


def test_a_dearer_stage_is_hidden_behind_a_slow_step():
    figures = make_figures(step_ms=300.0, together_ms=300.0, wait_ms=0.0)
    assert estimate_step_ms(figures, {"read": 10}) == pytest.approx(300)
    assert estimate_step_ms(figures, {"read": 31}) == pytest.approx(400)


def make_feeding(**values):
    defaults = {"hold_decoded": True, "augment": ["random_resized_crop", "rotate"]}
    return FeedingOptions.model_validate(defaults | values)


def limited_by(name, **values):
    """Figures of 10 ms an image, 8 of them of one stage; the model's step takes a fifth."""
    names = ("read", "decode", "views", "augment", "transform")
    wall, stages = 0.0, []
    for each in names:
        wall += 8.0 if each == name else 0.5
        stages.append((wall, 0.1))
    return make_figures(make_stages(*stages), 20.0, together_ms=100.0, wait_ms=80.0, **values)


def list_changes(name, feeding=None, **values):
    figures = limited_by(name, **values)
    assert judge(figures).limit == name
    return advise(figures, name, feeding or make_feeding())


def test_each_change_comes_with_the_step_it_leads_to():
    raw, cores = list_changes("decode")
    assert "ingest.prepare.encoding=raw" in raw.text and "3.0 times the bytes" in raw.text
    # Decoding saves 8 ms an image; three times the bytes cost 1 ms more.
    assert raw.gain == pytest.approx(100 / 30)
    assert "4 processor cores instead of 2" in cores.text
    # Decoding, views, random steps and transform graph are halved: 4.75 ms of 10.
    assert cores.gain == pytest.approx(100 / 52.5)


@pytest.mark.parametrize("name", ["read", "decode"])
def test_holding_images_is_proposed_only_where_it_can_help(name):
    def proposes(hold_decoded, could_hold, **values):
        feeding = make_feeding(hold_decoded=hold_decoded)
        changes = list_changes(name, feeding, could_hold=could_hold, **values)
        return any("hold_decoded" in change.text for change in changes)

    assert proposes(hold_decoded=False, could_hold=True)
    assert not proposes(hold_decoded=False, could_hold=False)
    assert not proposes(hold_decoded=True, could_hold=True)
    held = limited_by(name).stages.every_image
    assert not proposes(hold_decoded=False, could_hold=True, held=held)


def test_pixels_are_proposed_only_if_they_are_not_stored_already():
    texts = [change.text for change in list_changes("decode", storage=make_storage("raw"))]
    assert not any("encoding=raw" in text for text in texts)


def test_a_slow_disk_is_helped_by_fewer_bytes_or_a_faster_one():
    (disk,) = list_changes("read")
    assert "twice as fast" in disk.text and disk.gain == pytest.approx(100 / 60)
    jpeg, disk = list_changes("read", storage=make_storage("raw", 150_000.0))
    assert "encoding=jpeg" in jpeg.text
    assert jpeg.gain == pytest.approx(100 / (100 - 80 * 0.88))
    smaller, _ = list_changes("read", storage=make_storage(pixel_bytes=900_000.0))
    assert "ingest.prepare.size_px" in smaller.text
    # 1.5 of 6 times the view's pixels: a quarter of reading, decoding and views is left.
    assert smaller.gain == pytest.approx(100 / (100 - 90 * 0.75))


def test_views_of_much_larger_images_are_helped_by_smaller_ones():
    large = make_storage(pixel_bytes=600_000.0)
    assert "size_px" in list_changes("views", storage=large)[0].text
    assert not any("size_px" in change.text for change in list_changes("views"))


@pytest.mark.parametrize("name", ["augment", "transform"])
def test_compiling_is_proposed_where_it_is_off(name):
    best = list_changes(name, make_feeding(compiled=False))
    assert any("feeding.compiled=true" in change.text for change in best)
    assert not any("compiled" in change.text for change in list_changes(name))


def test_slow_random_steps_are_named():
    assert any("random_resized_crop, rotate" in each.text for each in list_changes("augment"))


def test_nothing_of_the_input_is_proposed_for_a_slow_step():
    figures = make_figures(step_ms=300.0, together_ms=300.0, wait_ms=1.0)
    assert advise(figures, "step", make_feeding()) == []


def test_several_steps_in_a_call_are_proposed_where_that_was_faster():
    figures = make_figures(step_ms=300.0, together_ms=300.0, wait_ms=1.0, calls={1: 50.0, 4: 75.0})
    (change,) = advise(figures, "step", make_feeding())
    assert "training.steps_per_execution=4" in change.text
    assert (change.gain, change.is_measured) == (1.5, True)
    figures = make_figures(step_ms=300.0, together_ms=300.0, wait_ms=1.0, calls={1: 50.0, 4: 52.0})
    assert advise(figures, "step", make_feeding()) == []


def test_what_brings_too_little_is_left_out():
    # The model's step takes 97 of 100 ms: nothing can bring 5 %.
    figures = make_figures(step_ms=97.0, together_ms=100.0, wait_ms=30.0)
    assert advise(figures, judge(figures).limit, make_feeding()) == []
