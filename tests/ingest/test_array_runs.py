"""Arrays are ingested as other tables are: the same records in whatever file they lie."""

import hashlib
import io
import pathlib

import h5py
import numpy as np
import pytest

from image_pipeline.components.arrays import arrays as source_arrays
from image_pipeline.components.dataset import record, tfrecord
from image_pipeline.components.dataset.paths import INDEX
from image_pipeline.components.ingest import shards
from tests.array_files import IMAGES, NAMES, WRITERS, write_files, write_hdf5, write_npy
from tests.drawings import draw, encode_png, write_folder
from tests.ingest_runs import ingest, read_lines, update

pytestmark = pytest.mark.beam

RAW = {"encoding": "raw"}
LABELS = np.arange(len(IMAGES)) % 3
COLUMNS = {"X": IMAGES, "name": NAMES, "y": LABELS}


def _shards(output):
    return {p.relative_to(output): p.read_bytes() for p in sorted(output.glob("Split-*/*"))}


def _read_records(output):
    for path in sorted(pathlib.Path(output).glob("Split-*/*")):
        with path.open("rb") as file:
            yield from tfrecord.read_records(file)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Of single files, one array each."""
    folder = tmp_path_factory.mktemp("npy")
    path = write_npy(folder / "X.npy", COLUMNS)
    ingest(path, folder / "out", prepare=RAW, columns={"path": "name.npy"})
    return folder / "out"


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_records_from_every_file(tmp_path, output, name):
    path = WRITERS[name](tmp_path / name, COLUMNS)
    ingest(path, tmp_path / "out", prepare=RAW)
    assert _shards(tmp_path / "out") == _shards(output)
    assert (tmp_path / "out" / INDEX).read_bytes() == (output / INDEX).read_bytes()


def test_records_are_exact(output):
    found = {}
    for serialized in _read_records(output):
        values = record.decode_example(serialized)
        row = NAMES.index(values[record.FILENAME].decode())
        found[row] = values
        file = io.BytesIO()
        np.lib.format.write_array(file, IMAGES[row], (1, 0))
        assert values[record.SHA256].decode() == hashlib.sha256(file.getvalue()).hexdigest()
        assert values[record.IMAGE] == IMAGES[row].tobytes()
        assert values[record.LABEL] == str(row % 3).encode()
        assert (values[record.HEIGHT], values[record.WIDTH], values[record.CHANNELS]) == (6, 5, 3)
    assert sorted(found) == list(range(len(IMAGES)))


def test_files_in_an_array_are_those_of_a_folder(tmp_path):
    images = write_folder(tmp_path / "images", per_class=20)
    paths = sorted(path.relative_to(images).as_posix() for path in images.rglob("*.png"))
    contents = [(images / path).read_bytes() for path in paths]
    table = write_files(tmp_path / "a.h5", "png", contents, chunks=(8,))
    with h5py.File(table, "a") as file:
        file["filename"] = paths
    for encoding in ("jpeg", "original"):
        ingest(images, tmp_path / f"folder-{encoding}", prepare={"encoding": encoding})
        ingest(table, tmp_path / f"table-{encoding}", prepare={"encoding": encoding})
        own = _shards(tmp_path / f"table-{encoding}")
        assert own == _shards(tmp_path / f"folder-{encoding}")
        assert len(own) == 4


def _write_damaged(path):
    """40 files in rows, of which three are bad: no image, cut, and without a label."""
    contents = [encode_png(draw(row)) for row in range(40)]
    contents[3], contents[5] = b"text", contents[5][:60]
    path.unlink(missing_ok=True)
    write_files(path, "png", contents)
    with h5py.File(path, "a") as file:
        file["y"] = np.where(np.arange(40) == 7, np.nan, np.arange(40) % 2)
    return path


def test_damage_is_quarantined_by_name_until_it_is_repaired(tmp_path):
    path, out = _write_damaged(tmp_path / "a.h5"), tmp_path / "out"
    ingest(path, out, max_bad_fraction=0.1)
    lines = {line["path"]: line["reason"] for line in read_lines(out / "quarantine.jsonl")}
    assert lines == {
        **{"a.h5/00000003": "not_an_image", "a.h5/00000005": "truncated"},
        "a.h5/00000007": "no_label",
    }
    with h5py.File(path, "a") as file:
        for row in (3, 5):
            file["png"][row] = np.frombuffer(encode_png(draw(row)), np.uint8)
        file["y"][7] = 1
    assert update(path, out, tmp_path / "mended", max_bad_fraction=0.1) == 37


def test_a_damaged_chunk_costs_its_rows(tmp_path):
    path = write_hdf5(tmp_path / "a.h5", {"x": IMAGES}, chunks=(16, 6, 5, 3), compression="gzip")
    with h5py.File(path) as file:
        damaged = file["x"].id.get_chunk_info_by_coord((32, 0, 0, 0))
    data = bytearray(path.read_bytes())
    data[damaged.byte_offset + 9] ^= 255
    path.write_bytes(data)
    ingest(path, tmp_path / "out", prepare=RAW, max_bad_fraction=0.5)
    lines = read_lines(tmp_path / "out" / "quarantine.jsonl")
    assert [line["path"] for line in lines] == [f"a.h5/{row:08d}" for row in range(32, 48)]
    assert {line["reason"] for line in lines} == {"corrupt"}
    assert "'/x' cannot be read (Can't synchronously read data" in lines[0]["message"]
    assert len(list(_read_records(tmp_path / "out"))) == len(IMAGES) - 16


def test_an_interrupted_ingest_reads_no_row_again(tmp_path, output, monkeypatch):
    path = write_hdf5(tmp_path / "a.h5", COLUMNS)

    def interrupted(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(shards, "_write_records", interrupted)
        with pytest.raises(Exception, match="No space left on device"):
            ingest(path, tmp_path / "out", prepare=RAW)
    monkeypatch.setattr(source_arrays, "read_row", interrupted)
    ingest(path, tmp_path / "out", prepare=RAW)
    assert _shards(tmp_path / "out") == _shards(output)
