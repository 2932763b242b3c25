"""What is opened: the source itself, its images with their masks, or its videos' frames."""

import json

import pydantic
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.frames import Frames
from tests.data_set_files import write_tfrecord

pytestmark = pytest.mark.unit


def test_options_cannot_change():
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        IngestOptions().seed = 3


def test_threads_are_not_part_of_the_stored_form():
    assert IngestOptions(threads=1).stored_form() == IngestOptions(threads=4).stored_form()
    assert IngestOptions(seed=1).stored_form() != IngestOptions(seed=2).stored_form()


def test_what_is_not_set_of_later_options_is_not_in_what_earlier_runs_are_known_by():
    assert list(json.loads(IngestOptions().to_json()))[:2] == ["prepare", "label_pattern"]
    later = {"columns", "column_types", "root_dir", "bad_rows", "classes"}
    assert not later & IngestOptions().stored_form().keys()
    assert not later & json.loads(IngestOptions().to_json()).keys()
    chosen = IngestOptions(columns={"image": "x"}, classes=("a",))
    assert later & chosen.stored_form().keys() == {"columns", "classes"}
    assert IngestOptions.model_validate_json(chosen.to_json()) == chosen


_MODULE = """
from image_pipeline import ImageRef

class Scans:
    def list(self):
        for path in ("images/a.png", "masks/a.png", "notes.txt"):
            yield ImageRef(path, 3, 7)
    def read(self, ref, most_bytes):
        return ref.path.encode()
"""


@pytest.fixture
def images(tmp_path, monkeypatch):
    name = f"scans_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return f"source:{name}:Scans"


def test_a_source_of_ones_own_may_hold_masks_as_a_folder_does(images):
    masks = {"images": "images/{key}.*", "masks": "masks/{key}.*"}
    options = complete_options(images, IngestOptions(masks=masks))
    source = open_source(images, options)
    found = list(source.list())
    assert [(ref.path, ref.mask and ref.mask.path) for ref in found] == [
        ("images/a.png", "masks/a.png"),
        ("notes.txt", None),
    ]
    assert source.read(found[0].mask, 100) == b"masks/a.png"


def test_videos_of_any_source_are_their_frames(images):
    source = open_source(images, IngestOptions(video={}))
    assert isinstance(source, Frames) and source.root == images


def test_a_folder_of_other_peoples_records_is_no_folder_of_images(tmp_path):
    (tmp_path / "Split-train").mkdir()
    write_tfrecord(tmp_path / "Split-train" / "data_tfrecord-00000-of-00001.gz", [{"n": 1}])
    with pytest.raises(UserError, match=r"but TFRecords in Split-train, .* tfrecord:"):
        complete_options(str(tmp_path), IngestOptions())
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "a.jpg").touch()
    assert complete_options(str(tmp_path), IngestOptions()) == IngestOptions()
