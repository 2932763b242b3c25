"""Existing data sets give the records of a folder, and our own give themselves once more."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from image_pipeline.components.dataset import record, tfrecord
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.verify import verify_data_set
from tests.data_set_files import (
    PACKINGS,
    make_table,
    write_arrow,
    write_parquet,
    write_tar,
    write_tfrecord,
)
from tests.drawings import draw, encode_png, write_folder
from tests.ingest_runs import ingest, read_lines, update

pytestmark = pytest.mark.beam


def _read_output(output):
    paths = [*sorted(output.glob("Split-*/*")), output / "index.parquet"]
    return {path.relative_to(output): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("source") / "images", per_class=20)


@pytest.fixture(scope="module")
def files(images):
    """The images' bytes by their paths."""
    paths = sorted(images.rglob("*.png"))
    return {path.relative_to(images).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def of_folder(images, tmp_path_factory):
    output = tmp_path_factory.mktemp("output") / "data"
    ingest(images, output)
    return _read_output(output)


def _label(path):
    return path.partition("/")[0]


def _write_tfrecord(path, files):
    examples = [
        {"image/class/text": _label(p).encode(), "image/encoded": d, "image/filename": p.encode()}
        for p, d in files.items()
    ]
    write_tfrecord(path, examples)


def _make_table(files):
    labels = ["cat", "dog"]
    features = {"label": {"_type": "ClassLabel", "names": labels}, "image": {"_type": "Image"}}
    return make_table(
        [(data, path) for path, data in files.items()],
        json.dumps({"info": {"features": features}}),
        label=[labels.index(_label(path)) for path in files],
    )


def _write_plain_parquet(path, files):
    table = pa.table({"jpg": [*files.values()], "key": [*files], "class": [*map(_label, files)]})
    write_parquet(path, table)


def _write_web_dataset(path, files):
    members = {}
    for name, data in files.items():
        members |= {name: data, f"{name[:-4]}.cls": _label(name).encode()}
    write_tar(path, members)


WRITERS = {
    **{f"a.tfrecord{ending}": _write_tfrecord for ending in PACKINGS},
    "a.parquet": lambda path, files: write_parquet(path, _make_table(files)),
    "plain.parquet": _write_plain_parquet,
    "a.arrow": lambda path, files: write_arrow(path, _make_table(files)),
    "a.tar": _write_web_dataset,
    "a.tar.gz": _write_web_dataset,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_data_set_gives_the_bytes_of_the_folder(files, of_folder, tmp_path, name):
    WRITERS[name](tmp_path / name, files)
    ingest(tmp_path / name, tmp_path / "data")
    assert _read_output(tmp_path / "data") == of_folder
    assert verify_data_set(str(tmp_path / "data")) == []


def _records(output, columns):
    """All values by the file's name; the image as pixels, and without what tells the source."""
    for path in sorted(output.glob("Split-*/*")):
        with path.open("rb") as file:
            for data in tfrecord.read_records(file):
                values = record.decode_example(data, columns)
                values["split"] = path.parent.name
                values["pixels"] = _decode(values).tobytes()
                for key in (record.IMAGE, record.SHA256, record.SOURCE_ID):
                    del values[key]
                yield values.pop(record.FILENAME), values


def _decode(values):
    shape = [values[key] for key in (record.HEIGHT, record.WIDTH, record.CHANNELS)]
    if values[record.FORMAT] == record.RAW:
        return np.frombuffer(values[record.IMAGE], np.uint8).reshape(shape)
    return np.asarray(Image.open(io.BytesIO(values[record.IMAGE]))).reshape(shape)


def _write_rows(images, files, **columns):
    rows = [
        {"path": path, **{name: make(number) for name, make in columns.items()}}
        for number, path in enumerate(files)
    ]
    table = images / "t.jsonl"
    table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return table


def _boxes(number):
    box = {"bbox": [0.3 + number % 3, 1, 3.7, 5], "iscrowd": number % 2}
    return [box | {"category": name} for name in "zyx"[: number % 4]]


KINDS = {
    "class": {"label": lambda n: f"c{n % 3}", "n": lambda n: n, "code": lambda n: f"0{n}"},
    "tags": {"tags": lambda n: ["a", "b", "c"][: n % 4], "score": lambda n: n / 8},
    "one tag": {"tags": lambda n: ["a", "b"][n % 2 : n % 2 + 1]},
    "value": {"label": lambda n: n / 4, "words": lambda n: [["x"], [], ["y", "1"]][n % 3]},
    "boxes": {"boxes": _boxes, "numbers": lambda n: [n, n]},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", ["png", "raw"])
def test_our_own_data_sets_give_themselves(images, files, tmp_path, kind, encoding):
    first, again = tmp_path / "first", tmp_path / "again"
    prepare = {"encoding": encoding}
    boxes = {"boxes": {"classes": ["y", "z", "x"]}} if kind == "boxes" else {}
    ingest(_write_rows(images, files, **KINDS[kind]), first, prepare=prepare, **boxes)
    ingest(first, again, prepare=prepare)
    options = read_manifest(str(first)).options
    types = {n: t for n, t in options["column_types"].items()}
    assert read_manifest(str(again)).options["column_types"] == types
    columns = record.all_columns(record.further_columns(types))
    expected, found = dict(_records(first, columns)), dict(_records(again, columns))
    for path, values in found.items() if kind == "boxes" else ():
        # It was reckoned from sides that had not been rounded.
        areas = values.pop(record.BOX_AREA.key), expected[path].pop(record.BOX_AREA.key)
        np.testing.assert_allclose(*areas, rtol=1e-6)
    assert found == expected and len(found) == len(files)


def test_our_own_data_sets_of_masks_give_themselves(tmp_path):
    for number in range(12):
        for kind, pixels in (
            ("images", draw(number)),
            ("masks", np.random.default_rng(number).integers(0, 3, (8, 10), np.uint8)),
        ):
            path = tmp_path / "pairs" / kind / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode_png(pixels))
    classes = {"classes": ["a", "b", "c"]}
    pairs = {"images": "images/{key}.png", "masks": "masks/{key}.png"}
    ingest(tmp_path / "pairs", tmp_path / "first", masks=classes | pairs)
    ingest(tmp_path / "first", tmp_path / "again", masks=classes)
    columns = record.all_columns((), has_masks=True)
    first, again = (dict(_records(tmp_path / name, columns)) for name in ("first", "again"))
    assert first == again and len(again) == 12


def _flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_repaired_record_is_added(files, of_folder, tmp_path):
    path = tmp_path / "a.tfrecord"
    _write_tfrecord(path, files)
    at = path.read_bytes().index(files["cat/007.png"]) + 50
    _flip(path, at)
    ingest(path, tmp_path / "out", max_bad_fraction=0.5)
    (line,) = read_lines(tmp_path / "out" / "quarantine.jsonl")
    assert (line["path"], line["reason"]) == ("cat/007.png", "corrupt")
    _flip(path, at)
    assert update(path, tmp_path / "out", tmp_path / "whole") == 39
    assert _read_output(tmp_path / "whole") == of_folder


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz", "a.tar"])
def test_a_file_that_goes_on_is_taken_up_to_where_it_ended(files, of_folder, tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path, files)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(0.53 * len(whole))])
    written = ingest(path, tmp_path / "out", max_bad_fraction=0.5).books.written
    assert 0 < written < len(files)
    path.write_bytes(whole)
    assert update(path, tmp_path / "out", tmp_path / "again") == written
    assert _read_output(tmp_path / "again") == of_folder


def test_splits_of_files_are_the_splits_of_records(files, tmp_path):
    names = list(files)
    parts = {"train": names[:30], "validation": names[30:]}
    for split, own in parts.items():
        _write_tfrecord(tmp_path / f"{split}-0-of-1.tfrecord", {n: files[n] for n in own})
    ingest(tmp_path / "*.tfrecord", tmp_path / "out")
    found = pq.read_table(tmp_path / "out" / "index.parquet", columns=["source", "split"])
    assert {row["source"]: row["split"] for row in found.to_pylist()} == {
        **dict.fromkeys(parts["train"], "train"),
        **dict.fromkeys(parts["validation"], "eval"),
    }
