"""What is opened: the source itself, its images with their masks, or its videos' frames."""

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.frames import Frames
from tests.data_set_files import write_tfrecord

pytestmark = pytest.mark.unit

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
