"""A pointer in place of a data set names it, and whether it is still the same."""

import json
import shutil

import pytest

from image_pipeline.components.dataset.manifest import hash_manifest
from image_pipeline.components.dataset.paths import MANIFEST, POINTER
from image_pipeline.components.dataset.pointer import (
    follow_pointer,
    make_pointer,
    write_pointer,
)
from image_pipeline.components.errors import UserError
from tests.dataset.listed import write_listed

pytestmark = pytest.mark.unit


@pytest.fixture
def data(tmp_path):
    """A data set of two splits, and a folder with a pointer to it."""
    manifest = write_listed(f"{tmp_path}/data", {"train": [b"abc", b"de"], "eval": [b"f"]})
    write_pointer(f"{tmp_path}/artifact", make_pointer(f"{tmp_path}/data", manifest, span=7))
    return tmp_path / "data"


def test_it_says_where_the_data_set_is_and_which_one(data, tmp_path):
    assert json.loads((tmp_path / "artifact" / POINTER).read_text()) == {
        "uri": str(data),
        "manifest_sha256": hash_manifest(str(data)),
        "records": 6,
        "bytes": 6,
        "span": 7,
    }
    pointer = follow_pointer(str(tmp_path / "artifact"))
    assert pointer is not None and (pointer.uri, pointer.version) == (str(data), None)


def test_a_data_set_itself_is_no_pointer(data):
    assert follow_pointer(str(data)) is None


def test_a_deleted_data_set_is_named(data, tmp_path):
    shutil.rmtree(data)
    with pytest.raises(UserError, match=f"data set '{data}' was deleted.*run ingest again"):
        follow_pointer(str(tmp_path / "artifact"))


def test_a_replaced_data_set_is_named_with_both_checksums(data, tmp_path):
    before = hash_manifest(str(data))
    manifest = data / MANIFEST
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    after = hash_manifest(str(data))
    with pytest.raises(UserError, match=f"'{data}' was replaced.* be {before}, got {after};"):
        follow_pointer(str(tmp_path / "artifact"))


@pytest.mark.parametrize("content", ["", '{"uri": 7}', "[]"])
def test_a_damaged_pointer_is_named(data, tmp_path, content):
    (tmp_path / "artifact" / POINTER).write_text(content)
    with pytest.raises(UserError, match=f"'{tmp_path}/artifact/{POINTER}' is damaged"):
        follow_pointer(str(tmp_path / "artifact"))
