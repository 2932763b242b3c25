import collections
import hashlib
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from image_pipeline.browse.catalogue import Catalogue, Query, list_rejected
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError
from tests.drawings import draw, encode_png, write_folder, write_scenes
from tests.ingest_runs import ingest
from tests.shards import flip_bit

pytestmark = pytest.mark.beam


def open_catalogue(data):
    return Catalogue(str(data), read_manifest(str(data)))


@pytest.fixture
def catalogue(browsed):
    return open_catalogue(browsed.data)


def find(catalogue, marks=frozenset(), **query):
    """The paths of what is found, in its order."""
    numbers = [int(number) for number in catalogue.find(Query(**query), marks)]
    return [each["source"] for each in catalogue.read(numbers, ["source"])]


def test_all_is_numbered_records_first(catalogue):
    assert len(catalogue) == 27 and catalogue.find(Query()) == range(27)
    states = [row["state"] for row in catalogue.read(range(27))]
    assert states == ["stored"] * 24 + ["quarantined", "duplicate", "skipped"]
    assert [each["number"] for each in catalogue.list_entries([26, 3], ())] == [26, 3]
    for number in (-1, 27):
        with pytest.raises(IndexError, match=f"from 0 to 26, got {number}"):
            catalogue.read([number])


def test_a_page_has_what_is_known(catalogue):
    (number,) = map(int, catalogue.find(Query(path="cat/04")))
    assert catalogue.list_entries([number], {"cat/04.png"}) == [
        {
            "number": number,
            "path": "cat/04.png",
            "label": "cat",
            "split": catalogue.read([number])[0]["split"],
            "state": "stored",
            "reason": "",
            "size": "10 × 12 px",
            "is_marked": True,
        }
    ]
    (bad, copy, _) = catalogue.list_entries([24, 25, 26], {"cat/04.png"})
    assert (bad["split"], bad["reason"], bad["size"]) == ("", "not_an_image", "")
    assert (bad["is_marked"], bad["label"], copy["label"]) == (False, "", "cat")


def test_numbers_are_found_by_paths_and_by_ids(catalogue):
    rows = catalogue.read([5, 20])
    ids = [row["record_id"] for row in rows]
    assert catalogue.find_values("record_id", ids[::-1]) == {ids[0]: 5, ids[1]: 20}
    paths = [rows[0]["source"], "dog/<b>.png", "gone.png"]
    assert catalogue.find_values("source", paths) == {paths[0]: 5, paths[1]: 24}


def test_records_and_rejected_files_are_searched_together(catalogue):
    names = [f"cat/{n:02d}.png" for n in range(0, 24, 2)]
    assert set(find(catalogue, label="cat")) == {*names, "cat/copy.png"}
    assert set(find(catalogue, label="cat", state="stored")) == set(names)
    assert find(catalogue, label="cat", state="duplicate") == ["cat/copy.png"]
    assert find(catalogue, reason="text") == ["about.txt"]
    assert find(catalogue, path="<B>") == ["dog/<b>.png"]
    assert find(catalogue, split="train", state="skipped") == []
    marks = frozenset({"about.txt", "cat/02.png"})
    assert find(catalogue, marks, marked=True) == ["cat/02.png", "about.txt"]
    assert find(catalogue, frozenset({"cat/02.png"}), marked=True) == ["cat/02.png"]


def test_the_orders(catalogue):
    assert find(catalogue, order="path") == sorted(find(catalogue))
    # Image n is 8 + n pixels high; of rejected files no size is known.
    smallest = find(catalogue, order="smallest")
    assert [path[4:6] for path in smallest[:24]] == [f"{n:02d}" for n in range(24)]
    largest = find(catalogue, order="largest", state="stored")
    assert largest == smallest[:24][::-1]
    by_bytes = catalogue.read([int(n) for n in catalogue.find(Query(order="bytes"))])
    sizes = [each["source_bytes"] for each in by_bytes]
    assert sizes[-1] is None and sizes[:-1] == sorted(sizes[:-1], reverse=True)


def test_the_choices_are_counted(browsed, catalogue):
    manifest = read_manifest(str(browsed.data))
    choices = catalogue.choices
    assert choices["labels"] == [("cat", 0), ("dog", 0)]
    assert dict(choices["splits"]) == {name: own.records for name, own in manifest.splits.items()}
    assert choices["states"] == [
        ("stored", 24),
        ("quarantined", 1),
        ("duplicate", 1),
        ("skipped", 1),
    ]
    assert choices["reasons"] == [("duplicate", 1), ("not_an_image", 1), ("text", 1)]


def test_notes_are_found_whatever_follows_their_colon(tmp_path):
    images = write_folder(tmp_path / "images", per_class=4)
    for frames in (3, 4):
        first, *others = (Image.new("RGB", (20, 16), (40 * n, 9, 9)) for n in range(frames))
        first.save(images / "cat" / f"{frames}.gif", save_all=True, append_images=others)
    ingest(images, tmp_path / "data")
    catalogue = open_catalogue(tmp_path / "data")
    assert dict(catalogue.choices["reasons"])["frames"] == 2
    for reason in ("frames", "frames:4"):
        assert sorted(find(catalogue, reason=reason)) == ["cat/3.gif", "cat/4.gif"]
    assert find(catalogue, reason="frame") == []


def test_a_search_is_made_once(catalogue, monkeypatch):
    reads = collections.Counter()
    read = pq.ParquetFile.iter_batches

    def count(file, **asked):
        reads["index"] += 1
        return read(file, **asked)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", count)
    for _ in range(3):
        find(catalogue, label="dog")
    assert reads == {"index": 1}
    for number in range(8):
        find(catalogue, path=str(number))
    find(catalogue, label="dog")
    assert reads == {"index": 10}


def test_rows_are_found_by_their_number_in_any_order(browsed, catalogue):
    table = pq.read_table(browsed.data / "index.parquet").to_pylist()
    table = [{"state": "stored", **row} for row in table]
    assert pq.read_metadata(browsed.data / "index.parquet").num_row_groups == 4
    assert catalogue.records == 24 and catalogue.read(range(24)) == table
    assert catalogue.read([23, 0, 11, 0]) == [table[number] for number in (23, 0, 11, 0)]
    assert catalogue.read([5], ["source", "width"]) == [
        {name: table[5][name] for name in ("state", "source", "width")}
    ]
    assert catalogue.read([]) == []


def test_a_rows_record_is_that_of_the_shard(browsed, catalogue):
    shards = sorted(map(str, browsed.data.glob("Split-*/*")))
    stored = StoredRecords(read_index(shards))
    expected = {stored.read(number) for number in range(24)}
    assert {catalogue.read_record(row) for row in catalogue.read(range(24))} == expected
    for row in catalogue.read(range(24)):
        assert row["source"].encode() in catalogue.read_record(row)


def test_what_is_damaged_is_named(browsed, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(browsed.data, data)
    catalogue = open_catalogue(data)
    (row,) = catalogue.read([0])
    flip_bit(catalogue.find_shard(row), row["record_offset"] + 20)
    with pytest.raises(UserError, match=f"the record of '{row['source']}' in .* is damaged"):
        catalogue.read_record(row)
    (data / "index.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="was changed since ingest wrote it"):
        open_catalogue(data)


@pytest.mark.parametrize("replace", [True, False])
def test_a_data_set_that_is_replaced_meanwhile_is_not_read_on(browsed, tmp_path, replace):
    data = tmp_path / "data"
    shutil.copytree(browsed.data, data)
    catalogue = open_catalogue(data)
    catalogue.read([3])
    table = pq.read_table(data / "index.parquet")
    (data / "index.parquet").unlink()
    if replace:
        pq.write_table(table.take(list(range(23, -1, -1))), data / "index.parquet")
    for read in (lambda: catalogue.read([3]), lambda: catalogue.find(Query(label="cat"))):
        with pytest.raises(UserError, match="has been replaced or removed meanwhile"):
            read()


def _write_table(folder, **column):
    folder.mkdir()
    rows = []
    for number in range(6):
        (folder / f"{number}.png").write_bytes(encode_png(draw(number, 40, 40)))
        cell = {name: values[number] for name, values in column.items()}
        rows.append({"path": f"{number}.png", **cell})
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ingest(folder / "t.jsonl", folder / "data", splits={"train": 1})
    return open_catalogue(folder / "data")


def find_labelled(catalogue, label):
    return set(find(catalogue, label=label))


def list_labels(catalogue):
    return [
        each["label"] for each in catalogue.list_entries(catalogue.find(Query(order="path")), ())
    ]


def test_tags_are_searched_one_by_one(tmp_path):
    tags = [["a"], ["a", "b"], [], ["b"], ["b", "c"], ["ab"]]
    catalogue = _write_table(tmp_path / "tags", tags=tags)
    assert list_labels(catalogue) == ["a", "a, b", "", "b", "b, c", "ab"]
    assert find_labelled(catalogue, "b") == {"1.png", "3.png", "4.png"}
    assert catalogue.choices["labels"] == [("a", 2), ("ab", 1), ("b", 3), ("c", 1)]


def test_boxes_are_searched_by_their_classes(tmp_path):
    box = {"bbox": [1, 1, 9, 9]}
    boxes = [
        [box | {"category": name} for name in names] for names in ("a", "b", "acc", "c", "", "b")
    ]
    catalogue = _write_table(tmp_path / "boxes", boxes=boxes)
    assert list_labels(catalogue) == ["a", "b", "a, c × 2", "c", "", "b"]
    assert catalogue.choices["labels"] == [("a", 0), ("b", 0), ("c", 0)]
    assert find_labelled(catalogue, "b") == {"1.png", "5.png"}
    assert find_labelled(catalogue, "zebra") == set()


def test_values_are_shown_and_not_searched(tmp_path):
    catalogue = _write_table(tmp_path / "values", label=[0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
    assert list_labels(catalogue) == [f"{n}.5" for n in range(6)]
    assert catalogue.choices["labels"] == []
    assert find_labelled(catalogue, "0.5") == set()


def test_masks_are_searched_by_their_classes(tmp_path):
    write_scenes(tmp_path / "scenes", 4)
    masks = {"images": "images/{key}.png", "masks": "masks/{key}.png"}
    masks |= {"classes": ["ground", "block"]}
    ingest(tmp_path / "scenes", tmp_path / "data", masks=masks)
    catalogue = open_catalogue(tmp_path / "data")
    assert catalogue.choices["labels"] == [("ground", 0), ("block", 0)]
    assert set(list_labels(catalogue)) == {"ground, block"}
    assert len(find_labelled(catalogue, "block")) == 4
    assert np.array_equal(catalogue.find(Query(label="sky")), [])


def test_all_files_without_a_record_are_listed_with_their_reason(browsed):
    data = str(browsed.data)
    bad, copy, text = list_rejected(data, read_manifest(data))
    content = hashlib.sha256(b"no picture").hexdigest()
    assert (bad["state"], bad["source"]) == ("quarantined", "dog/<b>.png")
    assert bad["notes"] == ["not_an_image"]
    assert (bad["source_bytes"], bad["sha256"], bad["label"]) == (10, content, None)
    assert copy == {
        "state": "duplicate",
        "source": "cat/copy.png",
        "label": "cat",
        "notes": ["duplicate"],
        "message": "has the bytes of cat/00.png",
        "source_bytes": None,
        "sha256": None,
    }
    assert (text["state"], text["source"], text["notes"]) == ("skipped", "about.txt", ["text"])


def test_a_duplicate_that_was_written_is_a_record(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    (images / "cat" / "copy.png").write_bytes((images / "cat" / "000.png").read_bytes())
    ingest(images, tmp_path / "data", duplicates="keep_all")
    data = str(tmp_path / "data")
    assert list_rejected(data, read_manifest(data)) == []
