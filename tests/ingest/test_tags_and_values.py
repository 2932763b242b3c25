"""Images with tags, or with a value: what the graph says of them, mixed tags, conditions.

What all labels have in common is in `tests/contracts`.
"""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from tests.contracts.fed import VIEW, by_number, read
from tests.contracts.kinds import COUNT, KINDS, NAMES, tags_of
from tests.drawings import write_folder
from tests.ingest_runs import ingest, read_lines
from tests.transform.analyze import make_pipeline

pytestmark = pytest.mark.beam


def _run(folder, kind):
    ingest(KINDS[kind].write(folder / "raw"), folder / "data")
    places = (str(folder / name) for name in ("data", "graph"))
    run_analysis(*places, VIEW, TransformOptions(), make_pipeline)
    return folder


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    return _run(tmp_path_factory.mktemp("tags"), "tags")


@pytest.fixture(scope="module")
def valued(tmp_path_factory):
    return _run(tmp_path_factory.mktemp("value"), "value")


def test_the_graph_counts_each_tag_of_the_train_split(tagged):
    index = pq.read_table(tagged / "data/index.parquet").to_pylist()
    train = [row["tags"] for row in index if row["split"] == "train"]
    summary = json.loads((tagged / "graph/analysis.json").read_text())
    assert summary["label"] == "image/tags" and summary["records"] == len(train)
    counted = {row["name"]: row for row in summary["classes"]}
    assert counted.keys() == set(NAMES)
    for name, row in counted.items():
        has = sum(name in tags for tags in train)
        assert (row["records"], row["prior"]) == (has, has / len(train))
        assert row["weight"] == pytest.approx((len(train) - has) / has, rel=1e-12)


def test_mixup_mixes_tags_of_neighbours(tagged):
    options = {"graph": tagged / "graph", "remainder": "drop"}
    mixed, plain = (read(tagged, augment=steps, **options) for steps in (["mixup"], []))
    for (_, shares), (_, own) in zip(mixed, plain, strict=True):
        partner = own.reshape(-1, 2, 3)[:, ::-1].reshape(-1, 3)
        share = (shares - partner)[own != partner] / (own - partner)[own != partner]
        assert ((share >= 0) & (share <= 1)).all()
        np.testing.assert_array_equal(shares[own == partner], own[own == partner])
    assert len({float(each) for _, shares in mixed for each in shares.ravel()} - {0, 1}) > 3


def test_the_graph_of_values_has_their_mean_and_variance_and_no_classes(valued):
    index = pq.read_table(valued / "data/index.parquet").to_pylist()
    train = [row["value"] for row in index if row["split"] == "train"]
    summary = json.loads((valued / "graph/analysis.json").read_text())
    assert (summary["label"], summary["classes"]) == ("image/value", [])
    found = summary["statistics"]
    assert found["value_mean"] == pytest.approx(np.mean(train), rel=1e-6)
    assert found["value_variance"] == pytest.approx(np.var(train), rel=1e-5)


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
    where = '"bee" in tags and not ("cat" in tags)'
    found = by_number(read(tagged, select={"where": where}))
    train = by_number(read(tagged))
    wanted = {number for number in train if {"bee", "cat"} & set(tags_of(number)) == {"bee"}}
    assert found.keys() == wanted and 0 < len(wanted) < len(train)


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


def test_tags_that_are_not_listed_are_quarantined(tmp_path):
    table = KINDS["tags"].write(tmp_path / "raw")
    ingest(table, tmp_path / "data", classes=["ant", "bee"], max_bad_fraction=0.3)
    lines = read_lines(tmp_path / "data/quarantine.jsonl")
    assert [(line["path"], line["reason"], line["message"]) for line in lines] == [
        (f"{n:02d}.png", "unknown_label", f"t.jsonl:{n + 1}: 'cat' is not one of ingest.classes")
        for n in range(0, COUNT, 5)
    ]
