import itertools

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.doctor import decodings
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


def decode(patterns, view, **options):
    """The pixels of two epochs."""
    feeding = FeedingOptions.model_validate({"batch_size": 4, "augment": [], **options})
    subject = open_subject(patterns, view, feeding, TrainingOptions(), None)
    batches = itertools.islice(list_decodings(subject), 6)
    return [decode_one() for batch in batches for decode_one in batch]


@pytest.mark.parametrize("source", ["indexed", "streaming"])
def test_of_random_crops_only_these_are_decoded(patterns, source, cut_parts):
    crops = ["random_resized_crop"]
    pixels = decode(patterns, RESIZED, augment=crops, source=source)
    assert len(pixels) == 24 and sum(part is not None for part in cut_parts) > 2
    assert len({each.shape for each in pixels}) > 12


@pytest.mark.parametrize("source", ["indexed", "streaming"])
def test_of_views_that_are_cut_the_middle_is_decoded(patterns, source, cut_parts):
    pixels = decode(patterns, CUT, source=source)
    assert {each.shape for each in pixels} == {(48, 48, 3)}
    assert len(cut_parts) == 24 and None not in cut_parts


@pytest.mark.parametrize("source", ["indexed", "streaming"])
def test_of_views_that_are_resized_everything_is_decoded(patterns, source, cut_parts):
    pixels = decode(patterns, RESIZED, source=source)
    assert all(min(each.shape[:2]) == 160 for each in pixels) and not cut_parts
    assert len({each.tobytes() for each in pixels}) == 12


@pytest.fixture
def drawn(monkeypatch):
    """How many crops are drawn at once, each time."""
    counts, draw = [], decodings.draw_crop_windows
    monkeypatch.setattr(
        decodings, "draw_crop_windows", lambda *given: counts.append(len(given[0])) or draw(*given)
    )
    return counts


def test_crops_are_drawn_for_many_batches_at_once(patterns, drawn):
    assert len(decode(patterns, RESIZED, augment=["random_resized_crop"])) == 24
    assert drawn == [decodings._DRAWN_AT_ONCE]


def test_large_images_that_are_streamed_wait_in_small_numbers(patterns, drawn, monkeypatch):
    monkeypatch.setattr(decodings, "_MOST_WAITING_BYTES", 1)
    options = {"augment": ["random_resized_crop"], "source": "streaming"}
    assert len(decode(patterns, RESIZED, **options)) == 24
    assert drawn == [4] * 6


def test_batches_are_gathered_up_to_a_number_and_the_last_ones_whatever_they_are(monkeypatch):
    monkeypatch.setattr(decodings, "_DRAWN_AT_ONCE", 5)
    gathered = decodings._gather(iter([[1, 2, 3], [4, 5, 6], [7]]))
    assert list(gathered) == [[[1, 2, 3], [4, 5, 6]], [[7]]]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("indexed", r"record \d+ of .* \(source '.*'\) is damaged: it is torn; run ingest again"),
        ("streaming", "A record of .* is damaged: it is torn; run ingest again"),
    ],
)
def test_what_cannot_be_decoded_is_one_message(patterns, source, message, monkeypatch):
    def tear(*_):
        raise ValueError("it is torn")

    monkeypatch.setattr(decodings, "decode_window", tear)
    with pytest.raises(UserError, match=message):
        decode(patterns, RESIZED, source=source)
