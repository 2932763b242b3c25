"""Arrays behind URIs: the rows of a local file, and what is read is as the file is now."""

import dataclasses

import pytest

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.options import TableOptions
from image_pipeline.components.tables.table import Table
from image_pipeline.components.tables.table_columns import complete_options
from tests.array_files import IMAGES, NAMES, WRITERS, write_npy

pytestmark = pytest.mark.beam


def _read(path, columns=None):
    table = Table(path, complete_options(path, TableOptions(columns=columns or {})))
    refs = list(table.list())
    placed = [dataclasses.replace(ref, modified_ns=0, location=None) for ref in refs]
    return placed, [table.read(ref, 10**6) for ref in refs]


def _send(store, path):
    with files.write_atomically(f"{store.uri}/arrays/{path.name}") as file:
        file.write(path.read_bytes())
    return f"{store.uri}/arrays/{path.name}"


@pytest.mark.parametrize("name", ["contiguous.h5", "chunked.hdf5", "stored.npz", "packed.npz"])
def test_rows_are_those_of_a_local_file(store, tmp_path, name):
    path = WRITERS[name](tmp_path / name, {"X": IMAGES, "name": NAMES})
    assert _read(_send(store, path)) == _read(str(path))
    WRITERS[name](path, {"X": IMAGES[::-1][:20], "name": NAMES[:20]})
    refs, rows = _read(_send(store, path))
    assert (refs, rows) == _read(str(path))
    assert len(rows) == 20


def test_files_beside_one_another(store, tmp_path):
    path = write_npy(tmp_path / "X.npy", {"X": IMAGES, "name": NAMES})
    _send(store, tmp_path / "name.npy")
    names = {"path": "name.npy"}
    assert _read(_send(store, path), names) == _read(str(path), names)


@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_labels_beside_the_images_are_found(store, tmp_path, scheme):
    labels = NAMES[::-1]
    path = write_npy(tmp_path / "X.npy", {"X": IMAGES, "y": labels, "y_test": NAMES})
    for each in tmp_path.glob("*.npy"):
        with files.write_atomically(f"{store.uri}/beside/{each.name}") as file:
            file.write(each.read_bytes())
    remote = f"{scheme}://bucket/beside/X.npy"
    assert complete_options(remote, TableOptions()).columns["label"] == "y.npy"
    refs, rows = _read(remote)
    assert [ref.annotations.label for ref in refs] == [str(label) for label in labels]
    assert (refs, rows) == _read(str(path))


def test_zarr_is_refused(store, tmp_path):
    path = WRITERS["file.zarr.zip"](tmp_path / "a.zarr.zip", {"X": IMAGES})
    with pytest.raises(UserError, match="Zarr is read from a local disk only, got 'gs://"):
        _read(_send(store, path))
    with pytest.raises(UserError, match="does not exist"):
        _read(f"{store.uri}/arrays/none.h5")
