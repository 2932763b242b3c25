"""Images with tags, or with a value: exact records, index, graph and batches, balanced books."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.dataset import record, tfrecord
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.graph import read_class_names
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.ingest.complete_options import complete_options
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import write_folder
from tests.ingest_runs import ingest, read_lines
from tests.transform.analyze import make_pipeline

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=8)
EVERY = {"dog": 2, "cat": 3, "sky": 5}  # every second image has a dog


def _write(folder, rows):
    images = write_folder(folder / "images", per_class=10)
    paths = [p.relative_to(images).as_posix() for p in sorted(images.rglob("*.png"))]
    said = [{"path": path, **rows(n)} for n, path in enumerate(paths)]
    # A copy that says otherwise, and rows that cannot be used.
    (images / "copy.png").write_bytes((images / paths[0]).read_bytes())
    said.append({"path": "copy.png", **rows(1)})
    table = images / "t.jsonl"
    table.write_text("\n".join(map(json.dumps, said)) + "\n")
    return table, {path: row for path, row in zip(paths, said[:-1], strict=True)}


def _tags(number):
    return {"tags": [tag for tag, every in EVERY.items() if number % every == 0]}


def _value(number):
    return {"label": number / 4 + 0.5}


def _run(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("kind")
    table, said = _write(folder, rows)
    ingest(table, folder / "data")
    run_analysis(
        str(folder / "data"), str(folder / "graph"), VIEW, TransformOptions(), make_pipeline
    )
    return folder, said


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    return _run(tmp_path_factory, _tags)


@pytest.fixture(scope="module")
def valued(tmp_path_factory):
    return _run(tmp_path_factory, _value)


def _read_records(folder):
    """Path to what the record says, in the order of the index."""
    further = read_manifest(str(folder / "data")).further
    for path in sorted((folder / "data").glob("Split-*/*")):
        with path.open("rb") as file:
            for data in tfrecord.read_records(file):
                values = record.decode_example(data, record.all_columns(further))
                assert values[record.LABEL] == b""
                yield values[record.FILENAME].decode(), values[further[0].key]


def _read_batches(folder, mode="eval", split="*", graph=True, **feeding):
    options = FeedingOptions(batch_size=8, **feeding)
    graph_dir = str(folder / "graph") if graph else None
    files = [str(folder / f"data/Split-{split}/*")]
    return input_fn(files, view=VIEW, feeding=options, transform_graph_dir=graph_dir, mode=mode)


def _labels(data):
    return np.concatenate([labels.numpy() for _, labels in data])


@pytest.mark.parametrize("kind", ["tagged", "valued"])
def test_books_balance_and_images_that_are_said_to_be_two_things_are_quarantined(kind, request):
    folder, said = request.getfixturevalue(kind)
    assert verify_data_set(str(folder / "data")) == []
    books = read_manifest(str(folder / "data")).books
    assert (books.found, books.written, books.conflicting_labels) == (21, 19, 1)
    lines = read_lines(folder / "data/quarantine.jsonl")
    assert {(line["path"], line["reason"]) for line in lines} == {
        ("copy.png", "conflicting_label"),
        (next(iter(said)), "conflicting_label"),
    }


def test_records_and_index_have_the_tags_that_the_table_has(tagged):
    folder, said = tagged
    records = list(_read_records(folder))
    assert {path: sorted(said[path]["tags"]) for path, _ in records} == {
        path: [tag.decode() for tag in tags] for path, tags in records
    }
    index = pq.read_table(folder / "data/index.parquet")
    assert {row["source"]: row["tags"] for row in index.to_pylist()} == {
        path: [tag.decode() for tag in tags] for path, tags in records
    }


@pytest.mark.parametrize("source", ["indexed", "streaming"])
def test_tags_are_fed_as_multi_hot_rows(tagged, source):
    folder, _ = tagged
    names = read_class_names(str(folder / "graph"))
    data = _read_batches(folder, source=source)
    assert data.element_spec[1].shape.as_list() == [None, 3]
    said = [tag.split(b"\n") for tag in _labels(_read_batches(folder, source=source, graph=False))]
    expected = [[name.encode() in tags for name in names] for tags in said]
    np.testing.assert_array_equal(_labels(data), np.array(expected, np.float32))
    if source == "indexed":  # In the order of the records.
        stored = [tags or [b""] for _, tags in _read_records(folder)]
        shards = sorted(said), sorted(stored)
        assert shards[0] == shards[1]


def test_the_graph_counts_each_tag_of_the_train_split(tagged):
    folder, _ = tagged
    index = pq.read_table(folder / "data/index.parquet").to_pylist()
    train = [row["tags"] for row in index if row["split"] == "train"]
    summary = json.loads((folder / "graph/analysis.json").read_text())
    assert summary["label"] == "image/tags" and summary["records"] == len(train)
    counted = {row["name"]: row for row in summary["classes"]}
    assert counted.keys() == EVERY.keys()
    for name, row in counted.items():
        has = sum(name in tags for tags in train)
        assert (row["records"], row["prior"]) == (has, has / len(train))
        assert row["weight"] == pytest.approx((len(train) - has) / has, rel=1e-12)


def test_mixup_mixes_tags_of_neighbours(tagged):
    folder, _ = tagged
    mixed = _read_batches(folder, "train", "train", augment=["mixup"], remainder="drop")
    plain = _read_batches(folder, "train", "train", augment=[], remainder="drop")
    for (_, shares), (_, tags) in zip(mixed, plain, strict=True):
        own, partner = tags.numpy(), tags.numpy().reshape(-1, 2, 3)[:, ::-1].reshape(-1, 3)
        share = (shares.numpy() - partner)[own != partner] / (own - partner)[own != partner]
        assert ((share >= 0) & (share <= 1)).all() and share.std() > 0
        np.testing.assert_array_equal(shares.numpy()[own == partner], own[own == partner])


@pytest.mark.parametrize("source", ["indexed", "streaming"])
def test_values_are_fed_as_they_are(valued, source):
    folder, said = valued
    data = _read_batches(folder, source=source)
    assert data.element_spec[1].shape.as_list() == [None]
    fed = _labels(data)
    assert fed.dtype == np.float32
    records = dict(_read_records(folder))
    assert {path: said[path]["label"] for path in records} == records
    assert sorted(fed.tolist()) == sorted(records.values())
    np.testing.assert_array_equal(fed, _labels(_read_batches(folder, source=source, graph=False)))


def test_the_graph_of_values_has_their_mean_and_variance_and_no_classes(valued):
    folder, _ = valued
    index = pq.read_table(folder / "data/index.parquet").to_pylist()
    train = [row["value"] for row in index if row["split"] == "train"]
    summary = json.loads((folder / "graph/analysis.json").read_text())
    assert (summary["label"], summary["classes"]) == ("image/value", [])
    found = summary["statistics"]
    assert found["value_mean"] == pytest.approx(np.mean(train), rel=1e-6)
    assert found["value_variance"] == pytest.approx(np.var(train), rel=1e-5)


@pytest.mark.parametrize("kind", ["tagged", "valued"])
def test_an_epoch_cannot_be_shared_between_classes(kind, request):
    folder, _ = request.getfixturevalue(kind)
    with pytest.raises(UserError, match="shares an epoch between classes, but the labels are"):
        _read_batches(folder, "train", "train", balance="uniform")


def test_an_epoch_cannot_be_shared_between_lists(tagged):
    with pytest.raises(UserError, match="between single values, but 'tags' holds lists; name"):
        _read_batches(tagged[0], "train", "train", balance="uniform", balance_by="tags")


def test_a_graph_of_other_labels_is_refused(tagged, valued):
    files = [str(valued[0] / "data/Split-train/*")]
    graph_dir = str(tagged[0] / "graph")
    with pytest.raises(UserError, match=r"graph is of tags, but the labels of '.*' are values; gi"):
        input_fn(
            files, view=VIEW, feeding=FeedingOptions(), transform_graph_dir=graph_dir, mode="train"
        )


def test_an_analysis_without_any_tag_is_refused(tmp_path):
    images = write_folder(tmp_path / "images", per_class=2)
    paths = sorted(images.rglob("*.png"))
    rows = [{"path": str(path), "tags": ["a"], "split": "eval"} for path in paths]
    rows[0] |= {"tags": [], "split": "train"}
    (images / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ingest(images / "t.jsonl", tmp_path / "data")
    places = (str(tmp_path / name) for name in ("data", "graph"))
    with pytest.raises(UserError, match=r"none of the records in the splits \['train'\] has any"):
        run_analysis(*places, VIEW, TransformOptions(), make_pipeline)


def test_conditions_look_for_tags(tagged):
    folder, said = tagged
    where = '"cat" in tags and not ("sky" in tags)'
    index = pq.read_table(folder / "data/index.parquet").to_pylist()
    sources = [row["source"] for row in index if row["split"] == "train"]
    wanted = {s for s in sources if {"cat", "sky"} & set(said[s]["tags"]) == {"cat"}}
    batches = _read_batches(
        folder, "train", "train", select={"where": where}, columns=["image/filename"]
    )
    found = {p.decode() for inputs, _ in batches for p in inputs["image/filename"].numpy()}
    assert found == wanted and 0 < len(wanted) < len(sources)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"stratify": True},
            "ingest.stratify shares out classes, but the label 'label' is a value",
        ),
        ({"stratify": "label"}, "ingest.stratify shares out classes"),
        ({"classes": ["1"]}, "ingest.classes lists classes, but the label 'label' is a value"),
    ],
)
def test_what_needs_classes_is_refused_for_values(tmp_path, options, message):
    (tmp_path / "t.csv").write_text("path,label\na.png,0.5\n")
    with pytest.raises(UserError, match=message):
        complete_options(str(tmp_path / "t.csv"), IngestOptions(**options))


def test_bad_labels_are_quarantined_by_line(tmp_path):
    images = write_folder(tmp_path / "images", per_class=10)
    paths = [p.relative_to(images).as_posix() for p in sorted(images.rglob("*.png"))]
    rows = [{"path": path, "tags": ["x"]} for path in paths]
    rows[3]["tags"], rows[5]["tags"] = ["two\nlines"], ["x", "other"]
    (images / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ingest(images / "t.jsonl", tmp_path / "data", classes=["x"], max_bad_fraction=0.2)
    lines = read_lines(tmp_path / "data/quarantine.jsonl")
    assert sorted((line["reason"], line["message"]) for line in lines) == [
        ("unknown_label", "t.jsonl:6: 'other' is not one of ingest.classes"),
        (
            "wrong_type",
            "t.jsonl:4: the column 'tags' must be of type strings: a tag must be on one "
            "line, got 'two\\nlines'",
        ),
    ]
