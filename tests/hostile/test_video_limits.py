"""Videos whose headers say more than their files can have."""

import dataclasses

import pytest

from image_pipeline.components.images.npy import NPY_MAGIC
from image_pipeline.components.sources import frames
from image_pipeline.components.sources.folder import Folder
from image_pipeline.components.sources.options import VideoOptions
from tests.videos import encode

pytestmark = pytest.mark.unit


def test_frames_that_no_file_has_and_the_kind_of_one_that_is_too_large(tmp_path, monkeypatch):
    (tmp_path / "a.mp4").write_bytes(encode(5))
    source = frames.Frames(Folder(str(tmp_path)), VideoOptions(frames_per_second=1000))
    listed = list(source.list())
    assert len(listed) > 100
    monkeypatch.setattr(frames, "_find_video", lambda source, ref: pytest.fail("it is decoded"))
    assert source.read(listed[0], 16) == NPY_MAGIC
    monkeypatch.setattr(frames, "FREE_ROWS", 10)
    assert list(source.list()) == listed  # They are fewer than its bytes.
    refs = [
        dataclasses.replace(ref, size_bytes=len(listed) - 1) for ref in Folder(str(tmp_path)).list()
    ]
    (refused,) = source.list_frames(refs[0])
    assert (refused.path, refused.problem) == ("a.mp4", "corrupt")
    assert refused.message.endswith("frames, more than it has bytes")
