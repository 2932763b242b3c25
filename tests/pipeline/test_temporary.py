"""A command's folder of temporary files, and what is not in it."""

import os
import pathlib
import tempfile

import pytest

from image_pipeline import temporary
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.files import LASTING

pytestmark = pytest.mark.unit


def test_the_cache_of_records_outlives_a_command(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv(LASTING, "of another test")
    monkeypatch.delenv(LASTING)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(temporary, "_folder", None)
    monkeypatch.setattr(temporary, "_lasting", None)
    cache = str(tmp_path / "image-pipeline-records")
    assert FeedingOptions().cache_folder == cache
    temporary.use_folder()
    own = pathlib.Path(tempfile.gettempdir())
    assert own.parent == tmp_path and os.environ["TMPDIR"] == str(own)
    assert FeedingOptions().cache_folder == cache
    temporary.use_folder()  # As a command does that a command starts.
    assert FeedingOptions().cache_folder == cache
    temporary.delete_folder()
    own.rmdir()
