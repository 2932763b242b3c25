"""What is read from and written to an object store is what a local folder gives."""

import pathlib
import shutil

import numpy as np
import pytest

from image_pipeline.components import files
from image_pipeline.components.dataset import index_rows
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.json_text import to_json
from image_pipeline.config import PipelineConfig
from image_pipeline.report.page import write_report
from image_pipeline.run.run_plan import plan_run
from tests.object_store.runs import analyze, ingest, read_batches, read_tree, train

pytestmark = [pytest.mark.beam, pytest.mark.wide]


def test_ingest_writes_the_same_bytes_and_leaves_nothing_else(places):
    local, store = (read_tree(f"{places[name]}/data") for name in ("local", "store"))
    assert {name.rpartition("/")[0] for name in local} == {
        *("", "Split-train", "Split-eval", "quarantine")
    }
    assert store == local


@pytest.mark.parametrize("kind", ["tar", "gztar", "zip"])
@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_archives_are_read_where_they_are(places, store, tmp_path, scheme, kind):
    path = shutil.make_archive(str(tmp_path / "images"), kind, f"{places['local']}/images")
    name = f"archives/{pathlib.Path(path).name}"
    with files.write_atomically(f"{store.uri}/{name}") as file:
        file.write(pathlib.Path(path).read_bytes())
    for images in (f"{scheme}://bucket/{name}", f"{scheme}://bucket/{name.replace('ages', '*')}"):
        ingest(images, str(tmp_path / "data"))
        assert read_tree(str(tmp_path / "data")) == read_tree(f"{places['local']}/data")
        shutil.rmtree(tmp_path / "data")


def test_an_archive_that_is_not_there_is_told():
    for name in ("none.tar", "non*.tar"):
        with pytest.raises(UserError, match=r"There is no archive 'gs://bucket/non.*; give one"):
            ingest(f"gs://bucket/{name}", "unused")


@pytest.mark.parametrize("threads", [1, 7])
def test_the_number_of_threads_changes_nothing(places, tmp_path, threads):
    ingest(f"{places['store']}/images", str(tmp_path / "data"), threads=threads)
    assert read_tree(str(tmp_path / "data")) == read_tree(f"{places['local']}/data")


def test_a_data_set_is_verified(places, store):
    data = f"{store.uri}/damaged"
    for name, content in read_tree(f"{places['store']}/data").items():
        with files.write_atomically(f"{data}/{name}") as file:
            file.write(content)
    assert verify_data_set(data) == []
    (shard, *_) = files.list_files(data, "Split-train/*")
    content = bytearray(files.read_file(shard))
    content[-1] ^= 1
    with files.write_atomically(shard) as file:
        file.write(content)
    (finding,) = verify_data_set(data)
    assert "its data or the data's checksum is damaged" in str(finding)


@pytest.mark.parametrize("copied_bytes", [0, 2**26])
def test_an_index_in_a_store_says_the_same(places, monkeypatch, copied_bytes):
    """By ranges of rows, or of a copy."""
    monkeypatch.setattr(index_rows, "_COPIED_BYTES", copied_bytes)
    stored, local = (
        read_index(files.list_files(f"{places[name]}/data", "Split-*/*"))
        for name in ("store", "local")
    )
    rows = np.random.default_rng(0).integers(0, len(local), 50)
    for found, expected in zip(stored.take(rows), local.take(rows), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert stored.column("record_id").tobytes() == local.column("record_id").tobytes()


def test_the_analysis_finds_the_same(places, graphs):
    assert graphs["store"] == graphs["local"]


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_batches_are_the_same(places, graphs, mode):
    local, store = (read_batches(root, mode) for root in places.values())
    assert len(local) > 1
    for ours, theirs in zip(local, store, strict=True):
        for array, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(array, other)


@pytest.mark.wide
def test_the_analysis_of_s3_finds_the_same(places, graphs):
    graph_dir = "s3://bucket/graph-of-s3"
    assert analyze("s3://bucket/data", graph_dir) == graphs["local"]
    again = analyze("s3://bucket/data", graph_dir)  # It replaces the first.
    known = f"{graph_dir} had the sums of {again['records']} images, which were not decoded again"
    assert again == graphs["local"] | {"earlier": known}
    parts = {"analysis.json", "metadata", "transform_fn", "transformed_metadata"}
    assert {name.partition("/")[0] for name in read_tree(graph_dir)} == {*parts, ".pixel_sums"}


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_batches_of_s3_are_the_same(places, graphs, mode):
    local = read_batches(places["local"], mode)
    found = read_batches("s3://bucket", mode)
    assert len(found) == len(local) > 1
    for ours, theirs in zip(local, found, strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])


def test_what_others_write_is_not_on_s3(places):
    with pytest.raises(UserError, match=r"the analysis's cache must be .* s3://bucket/cache;"):
        analyze("s3://bucket/data", "s3://bucket/graph", cache_dir="s3://bucket/cache")
    with pytest.raises(UserError, match=r"--output must be .* s3://bucket/run;"):
        plan_run(PipelineConfig(), "s3://bucket/images", "s3://bucket/run", [])


@pytest.mark.wide
@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_training_learns_and_exports_the_same(places, graphs, trained, scheme):
    metrics, answer = trained
    store_metrics, store_answer = train(f"{scheme}://bucket", f"{scheme}://bucket/trained-{scheme}")
    assert store_metrics == metrics
    assert len(metrics["loss"]) == 2
    np.testing.assert_array_equal(store_answer, answer)


def test_a_report_finds_the_same(places, tmp_path):
    told = []
    for root in (places["local"], "s3://bucket", "gs://bucket"):
        figures = write_report(f"{root}/data", None, str(tmp_path / "report.html"))
        told.append(to_json(figures).replace(root, "ROOT"))
    assert told[0] == told[1] == told[2]
    assert '"pixels"' in told[0]
