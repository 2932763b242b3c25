"""Files of this project's own whose checksums are right, though their content is not."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from image_pipeline.browse.catalogue import Catalogue, Query
from image_pipeline.cli import call
from image_pipeline.components import contract
from image_pipeline.components.dataset.checksums import describe_file
from image_pipeline.components.dataset.index import read_index, read_table
from image_pipeline.components.dataset.index_file import scan_index
from image_pipeline.components.dataset.index_rows import ROW as ROW_TYPE
from image_pipeline.components.dataset.index_rows import seal_shard
from image_pipeline.components.dataset.manifest import read_manifest, seal
from image_pipeline.components.errors import UserError
from tests.drawings import write_folder
from tests.graphs import write_analysis
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam

ROW = "the index says otherwise: "


def change_index(data, change):
    """Writes another index, and notes its checksum in the manifest."""
    path = data / "index.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    list_index(data)


def list_index(data, name="index.parquet"):
    described = describe_file(str(data / name)).model_dump()
    seal_manifest(data, lambda manifest: manifest["files"].update({name: described}))


def forget_rows(data):
    """Makes a data set one of an older version, whose index had one form only."""
    seal_manifest(data, lambda manifest: manifest["files"].pop("index.rows"))


@pytest.fixture
def data(tmp_path):
    ingest(write_folder(tmp_path / "images", per_class=3), tmp_path / "data", shards=1)
    return tmp_path / "data"


def set_column(name, make):
    def change(table):
        column = table[name]
        place = table.column_names.index(name)
        return table.set_column(place, name, make(column))

    return change


def spoil(column):
    """Bytes that are not UTF-8 in a column of text."""
    return pa.array([b"\xff\xfe"] * len(column)).view(pa.string())


INDEX_LIES = {
    "text": (set_column("shard", lambda c: c.cast(pa.string())), "type int32, not string"),
    "offset": (
        set_column("record_offset", lambda c: c.cast(pa.string())),
        "type int64, not string",
    ),
    "long text": (set_column("label", lambda c: c.cast(pa.large_string())), "not large_string"),
    "empty": (
        set_column("width", lambda c: pa.array([None, *c.to_pylist()[1:]], c.type)),
        "its column width must have a value in each row",
    ),
    "nothing": (set_column("label", lambda c: pa.nulls(len(c), c.type)), "label must have a value"),
    "twice": (lambda t: t.append_column("source", t["source"]), "must have one column source"),
    "none": (lambda t: t.drop_columns(["channels"]), "must have one column channels"),
    "no text": (set_column("label", spoil), "Invalid UTF8"),
    "no split": (set_column("split", spoil), "its rows of shard 0 of 'train' are not"),
    "mixed": (
        set_column("split", lambda c: c.take(pa.array([*range(len(c))][::-1]))),
        "of 'train'",
    ),
    "negative": (
        set_column("record_length", lambda c: pa.array([-1] * len(c), c.type)),
        "its rows of shard 0 of 'train' are not those of its records",
    ),
    "no id": (
        set_column("record_id", lambda c: pa.array(["zz" * 16] * len(c))),
        "Non-hexadecimal digit",
    ),
    "short id": (
        set_column("record_id", lambda c: pa.array(["0"] * len(c))),
        "must have 32 digits",
    ),
    "lost": (lambda t: t.slice(1), "its rows of shard 0 of 'train'"),
    "none left": (lambda t: t.slice(0, 0), "it must have 6 rows"),
    "more": (lambda t: pa.concat_tables([t, t]), "it must have 6 rows"),
    "other order": (lambda t: t.take(pa.array([1, 0, 2, 3, 4, 5])), "of shard 0 of 'train'"),
}


@pytest.mark.parametrize("lie", INDEX_LIES)
def test_an_index_that_lies_reads_nothing(data, lie):
    change, problem = INDEX_LIES[lie]
    change_index(data, change)
    forget_rows(data)
    with pytest.raises(UserError, match=re.escape(problem)) as refused:
        read_index([str(each) for each in sorted(data.glob("Split-*/*"))])
    assert str(refused.value).startswith(f"'{data / 'index.parquet'}' was changed since")


@pytest.mark.parametrize("lie", sorted(INDEX_LIES.keys() - {"no id", "short id"}))
def test_an_index_that_lies_is_shown_nowhere(data, lie, capfd):
    """Only the order of training needs an id's digits."""
    change_index(data, INDEX_LIES[lie][0])
    names = ["label", "source", "width"]
    for read in (
        lambda: list(scan_index(str(data), names)),
        lambda: Catalogue(str(data), read_manifest(str(data))).read([0]),
    ):
        with pytest.raises(UserError, match=r"index.parquet' was changed since"):
            read()
    if lie != "empty":  # No search reads the width of the stored image.
        with pytest.raises(UserError, match=r"index.parquet' was changed since"):
            Catalogue(str(data), read_manifest(str(data))).find(Query(path="x"))
    capfd.readouterr()
    assert call(["verify", str(data)]) == 1
    assert "index" in capfd.readouterr().out


def seal_manifest(data, change):
    path = data / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(seal(manifest)))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda m: m["splits"].pop("train"), "must list every shard that is read"),
        (lambda m: m["splits"]["train"].update(records=-1), "greater than or equal to 0"),
        (lambda m: m.update(found=10**19), "less than 9223372036854775808"),
        (lambda m: m["options"].update(prepare=[]), "its options"),
        (lambda m: m["options"]["prepare"].update(alpha_background=[1, 2]), "at least 3 items"),
        (lambda m: m["options"]["prepare"].update(dtype="text"), "prepare.dtype"),
        (lambda m: m["options"].update(column_types={"label": "text"}), "column_types.label"),
        (lambda m: m["options"].update(column_types={"boxes": "boxes"}), "no boxes.classes"),
        (lambda m: m["options"].update(masks={"classes": {"a": "#12"}}), "masks.classes"),
        (lambda m: m["options"].update(leave_out=1), "leave_out"),
    ],
)
def test_a_manifest_that_lies_reads_nothing(data, change, problem):
    seal_manifest(data, change)
    with pytest.raises(UserError, match=re.escape(problem)):
        read_index([str(each) for each in sorted(data.glob("Split-*/*"))])


def test_a_changed_list_is_not_read(data, capfd):
    line = '{"path": "a", "reason": "empty", "message": "", "bytes": 0, "sha256": null}\n'
    (data / "quarantine.jsonl").write_text(line)
    assert call(["quarantine", "list", str(data)]) == 1
    said = capfd.readouterr().err
    assert f"'{data / 'quarantine.jsonl'}' is not the file that manifest.json names;" in said


def test_an_empty_entry_of_a_list_reads_nothing(data):
    change_index(data, set_column("notes", lambda column: pa.array([[None]] * 6, column.type)))
    with pytest.raises(UserError, match="its column notes has an empty entry"):
        read_table([str(next((data / "Split-train").iterdir()))], ["notes"])
    assert call(["verify", str(data)]) == 1


@pytest.mark.parametrize("name", ["shard", "width"])
def test_an_index_whose_sizes_lie_does_not_end_the_process(data, name):
    path = data / "index.parquet"
    optional = b"\x25\x02\x18" + bytes([len(name)]) + name.encode()
    content = path.read_bytes()
    # The column has two levels by its sizes' histogram, and one if no cell may be empty.
    path.write_bytes(content.replace(optional, b"\x25\x00" + optional[2:]))
    assert path.read_bytes() != content
    list_index(data)
    forget_rows(data)
    with pytest.raises(UserError, match="histogram size mismatch"):
        read_index([str(next((data / "Split-train").iterdir()))])


ROW_LIES = {
    "before the shard": ("offset", -1),
    "behind the shard": ("offset", 2**62),
    "too long": ("length", 2**62),
    "no length": ("length", -1),
    "more image than record": ("image_length", 2**30),
    "no class": ("label", 2),
    "no number of a class": ("label", -1),
}


@pytest.mark.parametrize("lie", ROW_LIES)
def test_rows_that_lie_read_nothing(data, lie, capfd):
    """Their check words are right, and so is the checksum of the file."""
    column, value = ROW_LIES[lie]
    manifest, path = read_manifest(str(data)), data / "index.rows"
    rows = np.fromfile(path, ROW_TYPE)
    (shard,) = (s for split, _, s in manifest.list_shards() if split == "train")
    rows[column][1] = value
    seal_shard(rows[: shard.records], shard.sha256)
    rows.tofile(path)
    list_index(data, "index.rows")
    index = read_index([str(data / shard.file)])
    said = re.escape(f"'{path}' was changed since ingest wrote it (its row of record 1 of {data}")
    for rows in ([1], [0, 1], range(shard.records)):
        with pytest.raises(UserError, match=said):
            index.take(np.array(rows))
    assert index.take(np.array([0])).label.tolist() == [0]
    assert call(["verify", str(data)]) == 1
    assert f"{shard.file}: its rows are not those of index.parquet" in capfd.readouterr().out


@pytest.mark.parametrize("name", ["source", "format", "label"])
def test_a_column_that_the_index_lacks_is_a_finding(data, capfd, name):
    change_index(data, lambda table: table.drop_columns([name]))
    assert call(["verify", str(data)]) == 1
    assert f"{ROW}{name}" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("said", "code", "text"),
    [
        ({"statistics": {"mean": None, "std": [1.5, None, 2]}}, 0, "1.5000, None, 2.0000"),
        ({"statistics": {"mean": "text"}}, 0, "text"),
        ({"large_statistics": {"zca": {"shape": [3, 3], "min": None}}}, 0, "3 × 3 values"),
        ({"large_statistics": {"zca": {"min": 1.0}}}, 1, "large_statistics.zca.shape"),
        ({"mask_classes": ["a", "b"], "mask_pixels": [1]}, 1, "2 classes have 1 counts"),
        ({"box_classes": ["a"], "box_counts": [1, 2]}, 1, "1 classes have 2 counts"),
    ],
)
def test_what_is_said_of_a_graph_may_be_anything(tmp_path, capfd, said, code, text):
    write_analysis(tmp_path, **said)
    assert contract.ANALYSIS in {path.name for path in tmp_path.iterdir()}
    assert call(["inspect", str(tmp_path)]) == code
    out, err = capfd.readouterr()
    assert text in out + err and "Unexpected" not in err
