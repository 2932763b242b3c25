"""What the doctor reads and decodes is what training does, and so is what it does about damage."""

import json
import re
import shutil

import pytest

from image_pipeline.components.dataset.index import find_index
from image_pipeline.components.errors import find_user_error
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.config import PipelineConfig
from image_pipeline.doctor import input as own_input
from image_pipeline.doctor.figures import Storage
from image_pipeline.doctor.input import Subject, describe_storage, read_images
from tests.drawings import write_photos
from tests.ingest_runs import ingest
from tests.pipeline.test_commands import call

pytestmark = pytest.mark.beam

CUT = ViewOptions(height_px=48, width_px=48, crop_fraction=0.3)  # Of 160 px.
RESIZED = ViewOptions(height_px=48, width_px=48)


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """Twelve JPEGs in tiles, whose shorter side is 160 px."""
    root = tmp_path_factory.mktemp("tiled")
    prepare = {"encoding": "jpeg", "size_px": 160}
    images = write_photos(root / "images", 12)
    ingest(images, root / "data", prepare=prepare, splits={"train": 1.0})
    return f"{root}/data/Split-train/*"


@pytest.fixture
def decode(pattern, monkeypatch):
    """Reads and decodes two epochs of three batches; gives the subject, and the pixels."""

    def decode(view, decodes=True, **options):
        pixels, decode_window = [], own_input.decode_window
        monkeypatch.setattr(
            own_input,
            "decode_window",
            lambda *given: pixels.append(decode_window(*given)) or pixels[-1],
        )
        feeding = FeedingOptions.model_validate({"batch_size": 4, "augment": [], **options})
        subject = Subject(PipelineConfig(view=view, feeding=feeding), pattern, None)
        assert list(read_images(subject, decodes, epochs=2)) == [4] * 6
        return subject, pixels

    return decode


def test_of_random_crops_only_these_are_decoded(decode, cut_parts):
    crops = ["random_resized_crop"]
    _, pixels = decode(RESIZED, augment=crops)
    assert len(pixels) == 24 and sum(part is not None for part in cut_parts) > 2
    assert len({each.shape for each in pixels}) > 12


def test_of_views_that_are_cut_the_middle_is_decoded(decode, cut_parts):
    _, pixels = decode(CUT)
    assert {each.shape for each in pixels} == {(48, 48, 3)}
    assert len(cut_parts) == 24 and None not in cut_parts


def test_of_views_that_are_resized_everything_is_decoded(decode, cut_parts):
    _, pixels = decode(RESIZED)
    assert all(min(each.shape[:2]) == 160 for each in pixels) and not cut_parts
    assert len({each.tobytes() for each in pixels}) == 12


def test_what_cannot_be_decoded_is_one_message(decode, monkeypatch):
    def tear(*_):
        raise ValueError("it is torn")

    monkeypatch.setattr(own_input, "decode_window", tear)
    with pytest.raises(Exception, match="torn") as raised:
        decode(RESIZED)
    told = r"record \d+ of .* \(source '.*'\) is damaged: it is torn; run ingest again"
    assert re.search(told, str(find_user_error(raised.value)))


@pytest.mark.parametrize("decodes", [True, False])
def test_how_images_are_stored_is_told_of_those_that_were_read(decode, decodes):
    subject, _ = decode(RESIZED, decodes)
    assert len(subject.seen) == 24
    index = find_index(subject.paths)
    assert describe_storage(subject) == Storage(
        encoding="jpeg",
        stored_bytes=index.image_length.mean(),
        pixel_bytes=(index.height * index.width).mean() * 3,
        view_bytes=48 * 48 * 3,
    )


SIZE = ("--set", "view.height_px=8", "--set", "view.width_px=8", "--step-ms", "1")
QUICK = ("--seconds", "0.1", "--set", "feeding.batch_size=8", *SIZE)


@pytest.fixture(scope="module")
def damaged(data_dir, tmp_path_factory):
    """The data set, with a byte changed in its first PNG's signature."""
    folder = tmp_path_factory.mktemp("damaged") / "data"
    shutil.copytree(data_dir, folder)
    shard = min(folder.glob("Split-train/*"))
    content = bytearray(shard.read_bytes())
    content[content.index(b"\x89PNG")] = 0
    shard.write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("bad_records=stop", "is damaged: its data or the data's checksum is damaged"),
        ("verify=none", "is damaged: its image cannot be decoded (Unknown image file format"),
    ],
)
def test_a_damaged_record_is_one_message(option, message, damaged):
    result, output = call("doctor", damaged, *QUICK, "--set", f"feeding.{option}")
    assert result.exit_code == 1 and message in output
    assert "Traceback" not in output and "function_node" not in output


@pytest.mark.wide
def test_what_training_skips_the_doctor_skips_too(damaged):
    skip = ("--set", "feeding.bad_records=skip")
    result, _ = call("doctor", damaged, *QUICK, *skip, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["stages"]["every_image"]["decode"]["images"] >= 8
