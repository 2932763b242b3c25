"""A table is ingested as a folder is: the same bytes, exact further columns, balanced books."""

import csv
import math
import pathlib
import re
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.dataset import record, tfrecord
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.selection import make_order, select
from image_pipeline.components.ingest import prepare_chunk
from image_pipeline.components.ingest.work_folder import PreparedChunk, WorkFolder
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.references import Annotations, Chunk, ImageRef
from tests.drawings import draw, encode_png, write_folder
from tests.ingest_runs import ingest, read_lines, stopped_at_a_shard, update

pytestmark = pytest.mark.beam


def _write_csv(path, rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return path


def _list_rows(images):
    """A row for each image of class folders, with columns of every type."""
    rows = []
    for number, path in enumerate(sorted(images.rglob("*.png"))):
        row = {"path": path.relative_to(images).as_posix(), "label": path.parent.name}
        row |= {"age": number, "score": "" if number % 5 == 0 else number / 3}
        rows.append(row | {"site": f"s{number % 3}", "who": f"p{number // 2}"})
    return rows


def _read_records(output):
    for path in sorted(pathlib.Path(output).glob("Split-*/*")):
        with path.open("rb") as file:
            yield from tfrecord.read_records(file)


def _shards(output):
    return {p.relative_to(output): p.read_bytes() for p in sorted(output.glob("Split-*/*"))}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("source") / "images", per_class=20)


@pytest.fixture(scope="module")
def rows(images):
    return _list_rows(images)


@pytest.fixture(scope="module")
def output(images, rows, tmp_path_factory):
    """Of a table with further columns, whose file is gone by now: nothing later needs it."""
    folder = tmp_path_factory.mktemp("output")
    table = _write_csv(images / "train.csv", rows)
    ingest(table, folder, columns={"group": "who"})
    table.unlink()
    return folder


def test_a_list_gives_the_bytes_of_the_folder(images, rows, tmp_path):
    table = tmp_path / "list.train.txt"
    table.write_text("".join(f"{row['path']} {row['label']}\n" for row in reversed(rows)))
    ingest(images, tmp_path / "folder")
    ingest(table, tmp_path / "list", root_dir=str(images))
    assert _shards(tmp_path / "list") == _shards(tmp_path / "folder")
    index = pathlib.Path("index.parquet")
    assert (tmp_path / "list" / index).read_bytes() == (tmp_path / "folder" / index).read_bytes()


def test_further_columns_are_features_of_records_and_columns_of_the_index(rows, output):
    """TensorFlow's own parser reads them."""
    import tensorflow as tf

    by_path = {row["path"]: row for row in rows}
    index = {row["source"]: row for row in pq.read_table(output / "index.parquet").to_pylist()}
    seen = 0
    for data in _read_records(output):
        feature = tf.train.Example.FromString(data).features.feature
        path = feature[record.FILENAME].bytes_list.value[0].decode()
        row, indexed = by_path[path], index[path]
        assert feature["age"].int64_list.value == [row["age"]] and indexed["age"] == row["age"]
        assert feature["site"].bytes_list.value == [row["site"].encode()]
        assert (indexed["site"], indexed["group"]) == (row["site"], row["who"])
        (score,) = feature["score"].float_list.value
        if row["score"] == "":
            assert math.isnan(score) and math.isnan(indexed["score"])
        else:
            assert score == np.float32(row["score"]) and indexed["score"] == row["score"]
        assert "who" not in feature  # A role is no further column.
        seen += 1
    assert seen == len(rows) == 40
    assert verify_data_set(str(output)) == []


def test_the_manifest_says_what_the_columns_are(output):
    manifest = read_manifest(str(output))
    assert manifest.options["columns"] == {
        **{"image": "path", "label": "label", "group": "who"},
        **{"age": "age", "score": "score", "site": "site"},
    }
    assert [(c.key, c.dtype) for c in manifest.further] == [
        *(("age", "int64"), ("score", "float32"), ("site", "bytes"))
    ]


def test_a_damaged_column_is_found(output, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(output, copy)
    table = pq.read_table(copy / "index.parquet")
    changed = table.set_column(
        table.schema.get_field_index("site"), "site", [["s9"] * table.num_rows]
    )
    pq.write_table(changed, copy / "index.parquet")
    assert any("index" in finding.file for finding in verify_data_set(str(copy)))


def _train(output):
    return sorted(str(path) for path in output.glob("Split-train/*"))


def test_a_condition_and_the_balance_take_further_columns(rows, output):
    index = read_index(_train(output))
    feeding = FeedingOptions(select={"where": 'site == "s1" and age >= 10'})
    table = pq.read_table(output / "index.parquet", filters=[("split", "=", "train")])
    wanted = [r["site"] == "s1" and r["age"] >= 10 for r in table.to_pylist()]
    assert 0 < sum(wanted) < len(wanted)
    assert select(index, feeding, True).tolist() == np.flatnonzero(wanted).tolist()
    uniform = FeedingOptions(balance="uniform", balance_by="site")
    order = make_order(index, uniform, True, 0)
    drawn = order.draw(0, np.arange(order.length)).rows
    sites = [table["site"][row].as_py() for row in drawn.tolist()]
    counts = sorted(sites.count(site) for site in ("s0", "s1", "s2"))
    assert counts[2] - counts[0] <= 1 < counts[0]
    with pytest.raises(UserError, match=r"balance_by must name .* 'sight'; did you mean site"):
        make_order(index, FeedingOptions(balance="uniform", balance_by="sight"), True, 0)


def test_strata_of_a_further_column_have_their_exact_shares(images, rows, tmp_path):
    table = _write_csv(tmp_path / "t.csv", rows)
    root = {"root_dir": str(images), "splits": {"train": 0.5, "eval": 0.5}}
    ingest(table, tmp_path / "out", stratify="site", **root)
    found = pq.read_table(tmp_path / "out" / "index.parquet", columns=["split", "site"])
    for site in ("s0", "s1", "s2"):
        counts = [r["split"] for r in found.to_pylist() if r["site"] == site]
        assert abs(counts.count("train") - counts.count("eval")) <= 1
    with pytest.raises(UserError, match=r"stratify must name .* got 'sight'; columns: age, score"):
        ingest(table, tmp_path / "other", stratify="sight", **root)


def test_a_split_column_and_a_table_for_each_split(images, rows, tmp_path):
    said = [row | {"split": "val" if n % 4 == 0 else "train"} for n, row in enumerate(rows)]
    table = _write_csv(tmp_path / "t.csv", said)
    names = {"root_dir": str(images), "split_names": {"val": "eval"}}
    ingest(table, tmp_path / "one", **names)
    assert read_manifest(str(tmp_path / "one")).splits["eval"].records == 10
    for split in ("train", "val"):
        _write_csv(tmp_path / f"t.{split}.csv", [r for r in said if r["split"] == split])
    ingest(tmp_path / "t.{SPLIT}.csv", tmp_path / "two", **names, columns={"split": None})
    assert _shards(tmp_path / "two") == _shards(tmp_path / "one")


def test_labels_that_are_not_allowed_are_quarantined(images, rows, tmp_path):
    table = _write_csv(tmp_path / "t.csv", rows)
    with pytest.raises(UserError, match=r"20 unknown_label, for example 'dog/000.png'"):
        ingest(table, tmp_path / "out", root_dir=str(images), classes=["cat"])
    with pytest.raises(UserError, match=r"t.csv:22: .dog. is not one of ingest.classes"):
        ingest(table, tmp_path / "out", root_dir=str(images), classes=["cat"], bad_rows="error")


def test_an_update_after_repairs_gives_the_bytes_of_a_fresh_ingest(images, rows, tmp_path):
    """Bad are: a missing file, a row without a path and one of a wrong type; two are copies."""
    shutil.copytree(images, tmp_path / "images")
    (tmp_path / "images" / "copy.png").write_bytes((images / "cat" / "003.png").read_bytes())
    said = [row | {"split": "" if n % 4 < 2 else "train"} for n, row in enumerate(rows)]
    copy = said[3] | {"path": "copy.png", "who": "p99"}
    bad = [said[5] | {"path": "late.png"}, said[9] | {"path": ""}, said[12] | {"age": "x"}]
    whole = [said[5] | {"path": "late.png"}, said[9], said[12]]
    kept = [row for row in said if row not in (said[9], said[12])]
    table, options = tmp_path / "t.csv", {"root_dir": str(tmp_path / "images")}
    options |= {"columns": {"group": "who"}, "column_types": {"age": "int"}}
    options |= {"max_bad_fraction": 0.5, "stratify": True}
    _write_csv(table, [*kept[:20], *bad, *kept[20:], copy])
    manifest = ingest(table, tmp_path / "out", **options)
    assert (manifest.books.found, manifest.books.quarantined) == (42, 3)
    assert manifest.books.duplicates == 1
    (tmp_path / "images" / "late.png").write_bytes(encode_png(draw(77)))
    _write_csv(table, [*kept[:20], *whole, *kept[20:], copy])
    assert update(table, tmp_path / "out", tmp_path / "mended", **options) == 39


@pytest.mark.parametrize("option", [{"columns": {"image": "x"}}, {"bad_rows": "error"}])
def test_options_of_tables_are_refused_for_a_folder(images, tmp_path, option):
    with pytest.raises(UserError, match=rf"ingest.{min(option)} is for a table"):
        ingest(images, tmp_path / "out", **option)


def test_bad_rows_are_in_the_books(images, rows, tmp_path):
    table = _write_csv(tmp_path / "t.csv", [*rows, rows[0], {"path": "nope.png", "label": "cat"}])
    manifest = ingest(table, tmp_path / "out", root_dir=str(images), max_bad_fraction=0.1)
    assert (manifest.books.found, manifest.books.written) == (42, 40)
    assert manifest.books.quarantine_reasons == {"listed_twice": 1, "missing_file": 1}
    lines = read_lines(tmp_path / "out" / "quarantine.jsonl")
    assert [line["path"] for line in lines] == ["t.csv:42", "nope.png"]


def test_images_are_taken_though_their_rows_moved_and_stay_in_their_split(images, rows, tmp_path):
    """A bad row is mended and moves up; the rows of ten stored images are gone."""
    root = {"root_dir": str(images), "max_bad_fraction": 0.5}
    table, bad = tmp_path / "t.csv", rows[6] | {"path": ""}
    _write_csv(table, [*rows[:6], bad, *rows[7:]])
    ingest(table, tmp_path / "out", **root)
    before = pq.read_table(tmp_path / "out" / "index.parquet").to_pylist()
    _write_csv(table, rows[1:30])
    assert update(table, tmp_path / "out", tmp_path / "moved", **root) == 28
    after = pq.read_table(tmp_path / "moved" / "index.parquet").to_pylist()
    split_of = {row["source"]: row["split"] for row in before}
    assert sum(split_of.get(row["source"]) == row["split"] for row in after) == len(after) - 1 == 28


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"splits": {"train": 1.0}}, {"splits": {"train": 0.5, "test": 0.5}}),
        ({"bad_rows": "quarantine"}, {"bad_rows": "error"}),
        ({"columns": {"height_cm": "age"}}, {"columns": {"years": "age"}}),
    ],
)
def test_an_interrupted_ingest_goes_on_by_the_options_of_now(
    images, rows, tmp_path, monkeypatch, first, second
):
    said = [row | {"split": "test" if n % 2 else "train"} for n, row in enumerate(rows)]
    table = _write_csv(tmp_path / "t.csv", [*said, {"path": "nope.png", "label": "x"}])
    halves = {"train": 0.5, "test": 0.5}
    common = {"root_dir": str(images), "max_bad_fraction": 1, "splits": halves}
    with stopped_at_a_shard(monkeypatch):
        ingest(table, tmp_path / "out", **common | first)
    try:
        ingest(table, tmp_path / "out", **common | second)
    except UserError as resumed:
        with pytest.raises(UserError, match=re.escape(str(resumed))):
            ingest(table, tmp_path / "fresh", **common | second)
    else:
        ingest(table, tmp_path / "fresh", **common | second)
        assert _shards(tmp_path / "out") == _shards(tmp_path / "fresh")
        assert verify_data_set(str(tmp_path / "out")) == []


def test_another_root_is_another_source(images, rows, tmp_path):
    """Behind a URI, nothing but the root tells them apart."""
    options = IngestOptions(columns={"image": "path"}, root_dir="gs://bucket/a")
    chunk = Chunk(0, True, (ImageRef("1.png", 0, 0, annotations=Annotations("t.csv:2")),))
    other = options.model_copy(update={"root_dir": "gs://bucket/b"})
    work = WorkFolder(str(tmp_path))
    names = [prepare_chunk.name_chunk(chunk, [], "t.csv", work, each) for each in (options, other)]
    assert names[0] != names[1]


def test_the_fingerprint_sees_a_renamed_column(images, rows, tmp_path):
    table = _write_csv(tmp_path / "t.csv", rows)
    found = []
    for name in ("age", "years"):
        options = IngestOptions(root_dir=str(images), columns={name: "age"})
        found.append(list_images(str(table), options).fingerprint)
    assert found[0] != found[1]


def test_a_missing_object_is_asked_for_again():
    refs = (ImageRef("1.png", 0, 0, annotations=Annotations("t.csv:2")),)
    for bad, again in ((0, False), (1, True)):
        done = PreparedChunk(0, True, 1, bad, "name")
        assert prepare_chunk._may_be_repaired(Chunk(0, True, refs), done) is again
    seen = (ImageRef("1.png", 9, 9, annotations=Annotations("t.csv:2")), ImageRef("2.png", 0, 0))
    assert not prepare_chunk._may_be_repaired(Chunk(0, True, seen), done)
