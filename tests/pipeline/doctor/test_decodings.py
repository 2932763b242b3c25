import itertools

import pytest

from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.views import fast_decode
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.doctor.decodings import list_decodings
from image_pipeline.doctor.subject import open_subject
from tests.drawings import write_photos
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam

CUT = ViewOptions(height_px=48, width_px=48, crop_fraction=0.3)  # Of 160 px.
RESIZED = ViewOptions(height_px=48, width_px=48)


@pytest.fixture(scope="module")
def patterns(tmp_path_factory):
    """Twelve JPEGs in tiles, whose shorter side is 160 px."""
    root = tmp_path_factory.mktemp("tiled")
    prepare = {"encoding": "jpeg", "size_px": 160}
    images = write_photos(root / "images", 12)
    ingest(images, root / "data", prepare=prepare, splits={"train": 1.0})
    return [f"{root}/data/Split-train/*"]


def decode(patterns, view, monkeypatch, **options):
    """The pixels of two epochs, and how many images were decoded in part."""
    parts, cut = [], fast_decode.cut_part
    monkeypatch.setattr(fast_decode, "_has_few_cores", lambda: True)
    monkeypatch.setattr(
        fast_decode, "cut_part", lambda *arguments: parts.append(cut(*arguments)) or parts[-1]
    )
    feeding = FeedingOptions.model_validate({"batch_size": 4, "augment": [], **options})
    subject = open_subject(patterns, view, feeding, TrainingOptions(), None)
    batches = itertools.islice(list_decodings(subject), 6)
    pixels = [decode_one() for batch in batches for decode_one in batch]
    monkeypatch.undo()
    return pixels, sum(part is not None for part in parts)


@pytest.mark.parametrize("source", ["indexed", "streaming"])
def test_of_random_crops_only_these_are_decoded(patterns, source, monkeypatch):
    crops = ["random_resized_crop"]
    pixels, parts = decode(patterns, RESIZED, monkeypatch, augment=crops, source=source)
    assert len(pixels) == 24 and parts > 2
    assert len({each.shape for each in pixels}) > 12


@pytest.mark.parametrize("source", ["indexed", "streaming"])
def test_of_views_that_are_cut_the_middle_is_decoded(patterns, source, monkeypatch):
    pixels, parts = decode(patterns, CUT, monkeypatch, source=source)
    assert {each.shape for each in pixels} == {(48, 48, 3)} and parts == 24


@pytest.mark.parametrize("source", ["indexed", "streaming"])
def test_of_views_that_are_resized_everything_is_decoded(patterns, source, monkeypatch):
    pixels, parts = decode(patterns, RESIZED, monkeypatch, source=source)
    assert all(min(each.shape[:2]) == 160 for each in pixels) and parts == 0
    assert len({each.tobytes() for each in pixels}) == 12
