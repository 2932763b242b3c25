import pytest

from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.doctor.advice import advise
from image_pipeline.doctor.verdict import Storage, judge
from tests.pipeline.doctor.test_verdict import make_figures, make_stages

pytestmark = pytest.mark.unit


def make_feeding(**values):
    defaults = {"hold_decoded": True, "augment": ["random_resized_crop", "rotate"]}
    return FeedingOptions.model_validate(defaults | values)


def make_storage(encoding="jpeg", stored_bytes=50_000.0, pixel_bytes=150_000.0):
    return Storage(encoding, stored_bytes, pixel_bytes, view_bytes=150_000.0)


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
    verdict = judge(figures)
    assert verdict.limit == name
    return advise(figures, verdict, feeding or make_feeding())


def test_each_change_comes_with_the_step_it_leads_to():
    raw, cores = list_changes("decode")
    assert "ingest.prepare.encoding=raw" in raw.text and "3.0 times the bytes" in raw.text
    # Decoding saves 8 ms an image; three times the bytes cost 1 ms more.
    assert (raw.step_ms, raw.gain) == (30, 100 / 30)
    assert "4 processor cores instead of 2" in cores.text
    # Decoding, views, random steps and transform graph are halved: 4.75 ms of 10.
    assert cores.step_ms == 52.5


@pytest.mark.parametrize("name", ["read", "decode"])
def test_holding_images_is_proposed_only_where_it_can_help(name):
    def proposes(hold_decoded, could_hold, **values):
        feeding = make_feeding(hold_decoded=hold_decoded)
        changes = list_changes(name, feeding, could_hold=could_hold, **values)
        return any("hold_decoded" in change.text for change in changes)

    assert proposes(hold_decoded=False, could_hold=True)
    assert not proposes(hold_decoded=False, could_hold=False)
    assert not proposes(hold_decoded=True, could_hold=True)
    held = limited_by(name).every_image
    assert not proposes(hold_decoded=False, could_hold=True, held=held)


def test_pixels_are_proposed_only_if_they_are_not_stored_already():
    texts = [change.text for change in list_changes("decode", storage=make_storage("raw"))]
    assert not any("encoding=raw" in text for text in texts)


def test_a_slow_disk_is_helped_by_fewer_bytes_or_a_faster_one():
    (disk,) = list_changes("read")
    assert "twice as fast" in disk.text and disk.step_ms == 60
    jpeg, disk = list_changes("read", storage=make_storage("raw", 150_000.0))
    assert "encoding=jpeg" in jpeg.text
    assert jpeg.step_ms == pytest.approx(100 - 80 * 0.88)
    smaller, _ = list_changes("read", storage=make_storage(pixel_bytes=900_000.0))
    assert "ingest.prepare.size_px" in smaller.text
    # 1.5 of 6 times the view's pixels: a quarter of reading, decoding and views is left.
    assert smaller.step_ms == pytest.approx(100 - 90 * 0.75)


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
    assert advise(figures, judge(figures), make_feeding()) == []


def test_several_steps_in_a_call_are_proposed_where_that_was_faster():
    figures = make_figures(step_ms=300.0, together_ms=300.0, wait_ms=1.0, calls={1: 50.0, 4: 75.0})
    (change,) = advise(figures, judge(figures), make_feeding())
    assert "training.steps_per_execution=4" in change.text
    assert (change.gain, change.step_ms, change.is_measured) == (1.5, 200, True)
    figures = make_figures(step_ms=300.0, together_ms=300.0, wait_ms=1.0, calls={1: 50.0, 4: 52.0})
    assert advise(figures, judge(figures), make_feeding()) == []


def test_what_brings_too_little_is_left_out():
    # The model's step takes 97 of 100 ms: nothing can bring 5 %.
    figures = make_figures(step_ms=97.0, together_ms=100.0, wait_ms=30.0)
    assert advise(figures, judge(figures), make_feeding()) == []
