import json

import numpy as np
import pytest

from image_pipeline.browse.catalogue import Catalogue
from image_pipeline.browse.labels import Labels, find_labels
from image_pipeline.browse.query import Query
from image_pipeline.components.dataset.manifest import read_manifest
from tests.drawings import draw, encode_png, write_scenes
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam


@pytest.mark.parametrize(
    ("labels", "value", "said"),
    [
        (Labels("label"), "cat", "cat"),
        (Labels("tags"), ["a", "b"], "a, b"),
        (Labels("tags"), [], ""),
        (Labels("value"), 0.5, "0.5"),
        (Labels("value"), None, ""),
        (Labels("box_label", ("ant", "bee"), 1), [1, 2, 2], "ant, bee × 2"),
        (Labels("mask_ids", ("ground",), 0), [0, 7, 255], "ground, 7"),
    ],
)
def test_a_label_is_said_in_words(labels, value, said):
    assert labels.say(value) == said


def test_a_name_is_looked_for_as_the_column_has_it():
    assert Labels("label", ("cat",)).find("cow") == "cow"
    boxes = Labels("box_label", ("ant", "bee"), 1)
    assert (boxes.find("bee"), boxes.find("cow")) == (2, -1)


def _write_table(folder, **column):
    folder.mkdir()
    rows = []
    for number in range(6):
        (folder / f"{number}.png").write_bytes(encode_png(draw(number, 40, 40)))
        cell = {name: values[number] for name, values in column.items()}
        rows.append({"path": f"{number}.png", **cell})
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ingest(folder / "t.jsonl", folder / "data", splits={"train": 1})
    return _open(folder / "data")


def _open(data):
    return Catalogue(str(data), read_manifest(str(data)))


def _find(catalogue, label):
    return {catalogue.read(int(each))["source"] for each in catalogue.find(Query(label=label))}


def test_tags_are_searched_one_by_one(tmp_path):
    tags = [["a"], ["a", "b"], [], ["b"], ["b", "c"], ["ab"]]
    catalogue = _write_table(tmp_path / "tags", tags=tags)
    assert catalogue.labels == Labels("tags")
    assert _find(catalogue, "b") == {"1.png", "3.png", "4.png"}
    assert catalogue.choices["labels"] == [("a", 2), ("ab", 1), ("b", 3), ("c", 1)]


def test_boxes_are_searched_by_their_classes(tmp_path):
    boxes = [[{"bbox": [1, 1, 9, 9], "category": name}] for name in "abacab"]
    catalogue = _write_table(tmp_path / "boxes", boxes=boxes)
    assert catalogue.labels == Labels("box_label", ("a", "b", "c"), 1)
    assert _find(catalogue, "b") == {"1.png", "5.png"}
    assert _find(catalogue, "zebra") == set()


def test_values_are_shown_and_not_searched(tmp_path):
    catalogue = _write_table(tmp_path / "values", label=[0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
    assert catalogue.labels == Labels("value")
    assert {each["label"] for each in catalogue.read_page(range(6))} == {f"{n}.5" for n in range(6)}
    assert _find(catalogue, "0.5") == set()


def test_masks_are_searched_by_their_classes(tmp_path):
    write_scenes(tmp_path / "scenes", 4)
    masks = {"images": "images/{key}.png", "masks": "masks/{key}.png"}
    masks |= {"classes": ["ground", "block"]}
    ingest(tmp_path / "scenes", tmp_path / "data", masks=masks)
    catalogue = _open(tmp_path / "data")
    assert find_labels(read_manifest(str(tmp_path / "data"))).names == ("ground", "block")
    assert len(_find(catalogue, "block")) == 4
    assert np.array_equal(catalogue.find(Query(label="sky")), [])
