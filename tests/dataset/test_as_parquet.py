"""A data set as Parquet; `make interop` reads it by the libraries of Hugging Face and Croissant."""

import hashlib
import json

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from image_pipeline.cli import call
from image_pipeline.components.dataset.as_parquet import write_parquet
from image_pipeline.components.errors import UserError
from tests.drawings import draw, encode_png, write_folder, write_scenes
from tests.ingest_runs import ingest
from tests.shards import flip_bit

pytestmark = pytest.mark.beam

TEXT = {"dtype": "string", "_type": "Value"}


def read_all(folder):
    return {
        path.name: pq.read_table(path).to_pylist() for path in sorted(folder.glob("data/*.parquet"))
    }


def features_of(folder):
    path = next(iter(sorted(folder.glob("data/*.parquet"))))
    told = json.loads(pq.read_schema(path).metadata[b"huggingface"])
    return told["info"]["features"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of classes, its data set and that as Parquet."""
    folder = tmp_path_factory.mktemp("as_parquet")
    write_folder(folder / "images", ("dog", "cat"), per_class=12)
    ingest(folder / "images", folder / "data")
    arguments = ["export", str(folder / "data"), "--format", "parquet", "--licence", "cc-by-4.0"]
    assert call([*arguments, "--output", str(folder / "hub")]) == 0
    return folder


def test_the_rows_are_the_records_in_their_order(made):
    index = pq.read_table(made / "data" / "index.parquet").to_pylist()
    index.sort(key=lambda entry: (entry["split"], entry["shard"]))  # As files are sorted.
    rows = read_all(made / "hub")
    assert [name for name, own in rows.items() for _ in own] == [
        f"{row['split']}-{row['shard']:05d}-of-00002.parquet" for row in index
    ]
    for row, entry in zip((row for own in rows.values() for row in own), index, strict=True):
        content = (made / "images" / entry["source"]).read_bytes()
        shard = next(
            (made / "data" / f"Split-{entry['split']}").glob(f"*-{entry['shard']:05d}-of*")
        )
        start = entry["payload_offset"]
        stored = shard.read_bytes()[start : start + entry["payload_length"]]
        assert row == {
            "image": {"bytes": stored, "path": entry["source"]},
            "label": ["cat", "dog"].index(entry["label"]),
            "record_id": entry["record_id"],
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    assert features_of(made / "hub") == {
        "image": {"_type": "Image"},
        "label": {"names": ["cat", "dog"], "_type": "ClassLabel"},
        "record_id": TEXT,
        "sha256": TEXT,
    }


def test_it_can_be_ingested_again(made, tmp_path):
    ingest(made / "hub", tmp_path / "again")
    before, again = (
        {
            row["source"]: (row["split"], row["label"], row["height"])
            for row in pq.read_table(folder / "index.parquet").to_pylist()
        }
        for folder in (made / "data", tmp_path / "again")
    )
    assert again == before


def test_the_card_and_croissant_say_what_it_is(made):
    card = (made / "hub" / "README.md").read_text()
    head = yaml.safe_load(card.split("---")[1])
    assert head == {
        "pretty_name": "data",
        "license": "cc-by-4.0",
        "configs": [
            {
                "config_name": "default",
                "data_files": [
                    {"split": split, "path": f"data/{split}-*"} for split in ("train", "eval")
                ],
            }
        ],
    }
    assert "24 files were found: 24 are records, 0 copies of others, 0 not usable" in card
    described = json.loads((made / "hub" / "croissant.json").read_text())
    assert described["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert (described["name"], described["license"]) == ("data", "cc-by-4.0")
    (records,) = described["recordSet"]
    assert {field["name"]: field["dataType"] for field in records["field"]} == {
        "split": "sc:Text",
        "image": "sc:ImageObject",
        "label": "cr:Int64",
        "record_id": "sc:Text",
        "sha256": "sc:Text",
    }


def test_tags_columns_and_masks(tmp_path):
    (tmp_path / "images").mkdir()
    rows = []
    for number in range(6):
        (tmp_path / "images" / f"{number}.png").write_bytes(encode_png(draw(number)))
        tags = ["ant", "bee"][: number % 3]
        rows.append({"path": f"images/{number}.png", "tags": tags, "sha256": f"own {number}"})
    table = tmp_path / "rows.jsonl"
    table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    ingest(table, tmp_path / "tagged", column_types={"sha256": "string"})
    write_parquet(str(tmp_path / "tagged"), str(tmp_path / "hub"))
    found = {
        row["image"]["path"]: row for own in read_all(tmp_path / "hub").values() for row in own
    }
    for row in rows:
        assert found[row["path"]]["tags"] == row["tags"]
        assert found[row["path"]]["column_sha256"] == row["sha256"]
    assert features_of(tmp_path / "hub")["tags"] == {"feature": TEXT, "_type": "Sequence"}

    write_scenes(tmp_path / "scenes", 8)
    pairs = {"images": "images/{key}.*", "masks": "masks/{key}.*", "classes": ["dark", "bright"]}
    ingest(tmp_path / "scenes", tmp_path / "masked", masks=pairs)
    write_parquet(str(tmp_path / "masked"), str(tmp_path / "masks"))
    for rows in read_all(tmp_path / "masks").values():
        for row in rows:
            name = row["image"]["path"].rpartition("/")[2]
            expected = cv2.imread(str(tmp_path / "scenes" / "masks" / name), cv2.IMREAD_UNCHANGED)
            content = np.frombuffer(row["mask"]["bytes"], np.uint8)
            np.testing.assert_array_equal(cv2.imdecode(content, cv2.IMREAD_UNCHANGED), expected)


def test_what_cannot_be_written_is_refused(made, tmp_path):
    with pytest.raises(UserError, match="must be a new folder or an empty one"):
        write_parquet(str(made / "data"), str(made / "hub"))
    ingest(made / "images", tmp_path / "raw", prepare={"encoding": "raw"})
    with pytest.raises(UserError, match="are stored as pixels, or lie elsewhere"):
        write_parquet(str(tmp_path / "raw"), str(tmp_path / "hub"))
    assert not (tmp_path / "hub").exists()
    assert call(["export", "model", "--output", "x.tflite", "--name", "pets"]) == 2


def test_damage_is_named(made, tmp_path):
    ingest(made / "images", tmp_path / "data")
    shard = next((tmp_path / "data" / "Split-train").iterdir())
    flip_bit(str(shard), shard.stat().st_size // 2)
    with pytest.raises(UserError, match=rf"{shard.name}' is damaged"):
        write_parquet(str(tmp_path / "data"), str(tmp_path / "hub"))
    with pytest.raises(UserError, match="must be a new folder or an empty one"):
        write_parquet(str(made / "data"), str(tmp_path / "hub"))  # Which has the shards before.
    shard.unlink()
    with pytest.raises(UserError, match=rf"{shard.name}' is damaged .*No such file"):
        write_parquet(str(tmp_path / "data"), str(tmp_path / "other"))
