"""A data set of which one file is gone or cut is not complete."""

import pytest

from image_pipeline.components.dataset.complete import find_complete
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.paths import MANIFEST
from tests.dataset.listed import write_listed

pytestmark = pytest.mark.unit


@pytest.fixture
def data(tmp_path):
    """A data set of three shards."""
    write_listed(f"{tmp_path}/data", {"train": [b"abc", b"de"], "eval": [b"f"]})
    assert find_complete(f"{tmp_path}/data") == read_manifest(f"{tmp_path}/data")
    return tmp_path / "data"


def _listed(data):
    return sorted(path for path in data.rglob("*") if path.is_file() and path.name != MANIFEST)


def test_each_file_counts(data):
    paths = _listed(data)
    assert len(paths) >= 4  # Three shards and the index.
    for path in paths:
        content = path.read_bytes()
        path.write_bytes(content + b"x")
        assert find_complete(str(data)) is None
        path.unlink()
        assert find_complete(str(data)) is None
        path.write_bytes(content)
    assert find_complete(str(data)) is not None


def test_without_a_manifest_or_with_a_damaged_one_it_is_not(data, tmp_path):
    (data / MANIFEST).write_bytes((data / MANIFEST).read_bytes()[:-9])
    assert find_complete(str(data)) is None
    (data / MANIFEST).unlink()
    assert find_complete(str(data)) is None
    assert find_complete(str(tmp_path / "none")) is None
