"""Files of this project's own whose checksums are right, though their content is not."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from image_pipeline.cli import call
from image_pipeline.components import contract
from image_pipeline.components.dataset.checksums import describe_file
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.manifest import seal
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


def list_index(data):
    path = data / "index.parquet"
    manifest = json.loads((data / "manifest.json").read_text())
    manifest["files"]["index.parquet"] = describe_file(str(path)).model_dump()
    (data / "manifest.json").write_text(json.dumps(seal(manifest)))


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


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("shard", lambda column: column.cast(pa.string())),
        ("record_offset", lambda column: column.cast(pa.string())),
        ("width", lambda column: pa.array([None, *column.to_pylist()[1:]], column.type)),
    ],
)
def test_an_index_without_numbers_reads_nothing(data, name, make):
    change_index(data, set_column(name, make))
    with pytest.raises(UserError, match=f"its column {name} must have a whole number in each row"):
        read_index([str(next((data / "Split-train").iterdir()))])


@pytest.mark.parametrize("name", ["shard", "width"])
def test_an_index_whose_sizes_lie_does_not_end_the_process(data, name):
    path = data / "index.parquet"
    optional = b"\x25\x02\x18" + bytes([len(name)]) + name.encode()
    content = path.read_bytes()
    # The column has two levels by its sizes' histogram, and one if no cell may be empty.
    path.write_bytes(content.replace(optional, b"\x25\x00" + optional[2:]))
    assert path.read_bytes() != content
    list_index(data)
    with pytest.raises(UserError, match="histogram size mismatch"):
        read_index([str(next((data / "Split-train").iterdir()))])


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
