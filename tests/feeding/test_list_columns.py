"""Columns of lists are fed padded, with their lengths, and dense on any number of replicas."""

import json
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from image_pipeline.api import input_fn
from image_pipeline.components.errors import UserError
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import write_folder
from tests.feeding import on_two_replicas
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam

LISTS = on_two_replicas.LISTS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """40 images with 17 lists of numbers, a list of words, and a column called as lengths are."""
    folder = tmp_path_factory.mktemp("lists")
    images = write_folder(folder / "images", per_class=20)
    rows = []
    for number, path in enumerate(sorted(images.rglob("*.png"))):
        row = {"path": path.relative_to(images).as_posix(), "label": path.parent.name}
        row |= {name: list(range(at, (number + at) % 6 + at)) for at, name in enumerate(LISTS)}
        rows.append(row | {"words": ["w"] * (number % 3), "words_length": 1, "n": number})
    (images / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ingest(images / "t.jsonl", folder / "data")
    return folder


def test_lists_are_padded_to_the_longest_of_their_batch(folder):
    index = pq.read_table(folder / "data/index.parquet").to_pylist()
    rows = {row["n"]: row for row in index if row["split"] == "eval"}
    view, columns = ViewOptions(height_px=8, width_px=8), ["n", "list_3", "words"]
    options = {"view": view, "batch_size": 5, "columns": columns}
    seen = []
    for inputs, _ in input_fn(str(folder / "data"), "eval", **options).as_numpy_iterator():
        assert inputs.keys() == {"image", *columns, "list_3_length", "words_length"}
        expected = [rows[number] for number in inputs["n"].tolist()]
        for name, fill in (("list_3", 0), ("words", b"")):
            lists = [row[name] for row in expected]
            longest = max(map(len, lists))
            assert inputs[f"{name}_length"].dtype == np.int64
            assert inputs[f"{name}_length"].tolist() == list(map(len, lists))
            assert inputs[name].shape == (len(lists), longest)
            for fed, values in zip(inputs[name].tolist(), lists, strict=True):
                own = [each.encode() if isinstance(each, str) else each for each in values]
                assert fed == own + [fill] * (longest - len(own))
        seen += inputs["n"].tolist()
    assert sorted(seen) == sorted(rows)


def test_a_column_that_is_called_as_lengths_are_is_refused(folder):
    with pytest.raises(UserError, match="names 'words_length', which is what the lengths"):
        input_fn(str(folder / "data"), "eval", columns=["words", "words_length"])


@pytest.mark.wide
def test_two_replicas_read_17_lists_without_sparse_tensors_and_with_the_same_loss(folder):
    command = [sys.executable, on_two_replicas.__file__, folder / "data"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["replicas"] == 2 and len(told["one"]) == on_two_replicas.STEPS
    np.testing.assert_allclose(told["two"], told["one"], rtol=1e-5)
    sparse = {name for name in told["operations"] if "SerializeSparse" in name}
    assert not sparse and not told["traced_sparse"] and told["traced_parsing"]
    assert "SerializeSparse" in told["operations_of_sparse"]  # What would have been seen.
