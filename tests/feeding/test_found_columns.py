"""What is asked of data sets before their records are read."""

import pytest

from image_pipeline.components import files
from image_pipeline.components.feeding.records import read_manifests
from tests import shards

pytestmark = pytest.mark.unit


def test_shards_without_a_manifest_have_none_and_nobody_asks_twice(tmp_path, monkeypatch):
    pattern = shards.write_shards(tmp_path / "Split-train", shards.make_examples(2), 1)
    asked = []
    read = files.read_file
    monkeypatch.setattr(files, "exists", lambda path: asked.append(f"exists {path}"))
    monkeypatch.setattr(files, "read_file", lambda path: asked.append(path) or read(path))
    assert read_manifests([pattern]) == {}
    assert asked == [f"{tmp_path}/manifest.json"]
