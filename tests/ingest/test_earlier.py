"""What has not changed is taken from an earlier data set: the next is as if all were read again."""

import contextlib
import hashlib
import pathlib

import numpy as np
import pyarrow as pa
import pytest

from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.ingest import earlier
from image_pipeline.components.ingest.earlier import count_taken, find_earlier
from image_pipeline.components.ingest.shards import record_values
from tests.drawings import draw, encode_png, write_folder
from tests.ingest_runs import ingest, read_files, update

pytestmark = pytest.mark.beam

OPTIONS = {"shards": 3, "max_bad_fraction": 0.5, "conflicting_labels": "keep"}


def write_bad_folder(folder):
    """40 images, two of them twice (once before, once after its folder), and four bad files."""
    write_folder(folder, per_class=20)
    for name, data in {
        "cat/bad1.png": b"text",
        "cat/bad2.png": encode_png(draw(1))[:60],
        "dog/000a.png": b"more text",
        "dog/bad3.png": b"",
        "cow/copy.png": (folder / "dog" / "007.png").read_bytes(),
        "cat.d/copy.png": (folder / "cat" / "003.png").read_bytes(),
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"duplicates": "keep_all", "group_pattern": r"[^/]+/..(?P<group>.)", "shards": 1},
        {"near_duplicates": 4, "split_pattern": r"(?P<split>x)?", "prepare": {"encoding": "raw"}},
        {"prepare": {"encoding": "original"}, "label_pattern": None, "seed": 3},
    ],
)
def test_copies_and_repaired_files_are_as_in_a_fresh_ingest(tmp_path, options):
    """Of the repaired files, two become new images, and one the copy of an image after it."""
    images, options = write_bad_folder(tmp_path / "images"), OPTIONS | options
    ingest(images, tmp_path / "0", **options)
    (images / "cat" / "bad2.png").write_bytes(encode_png(draw(5001)))
    (images / "dog" / "bad3.png").write_bytes(encode_png(draw(5002)))
    (images / "dog" / "000a.png").write_bytes((images / "dog" / "011.png").read_bytes())
    assert update(images, tmp_path / "0", tmp_path / "1", **options) == 43
    # What was stored of copies is gone, or is not an image any more.
    for name in ("cat/003.png", "cat/bad1.png", "dog/011.png", "cow/copy.png"):
        (images / name).unlink()
    (images / "cat" / "004.png").write_bytes(b"now bad")
    assert update(images, tmp_path / "1", tmp_path / "2", **options) == 41
    books = read_manifest(str(tmp_path / "2")).books
    assert (books.quarantined, books.duplicates) == (1, 0)


def test_a_conflict_of_labels_ends_when_one_file_is_removed_and_begins_with_a_copy(tmp_path):
    images = write_bad_folder(tmp_path / "images")
    options = OPTIONS | {"conflicting_labels": "quarantine"}
    assert ingest(images, tmp_path / "0", **options).books.quarantined == 8
    (images / "cow" / "copy.png").unlink()
    (images / "dog" / "bad3.png").write_bytes((images / "cat" / "009.png").read_bytes())
    assert update(images, tmp_path / "0", tmp_path / "1", **options) == 39
    reasons = read_manifest(str(tmp_path / "1")).books.quarantine_reasons
    assert reasons["conflicting_label"] == 4


def test_skipped_files_become_images_and_images_are_skipped(tmp_path):
    images = write_bad_folder(tmp_path / "images")
    (images / "cat" / "scan").write_text("to be scanned")
    ingest(images, tmp_path / "0", **OPTIONS)
    (images / "cat" / "scan").write_bytes(encode_png(draw(5003)))
    (images / "dog" / "005.png").write_text("About these images.")
    assert update(images, tmp_path / "0", tmp_path / "1", **OPTIONS) == 41
    (images / "dog" / "005.png").unlink()
    (images / "dog" / "005").write_text("About these images.")
    assert update(images, tmp_path / "1", tmp_path / "2", **OPTIONS) == 42
    assert read_manifest(str(tmp_path / "2")).books.skipped_kinds == {"text": 1}


def test_names_labels_and_groups_are_read_anew(tmp_path):
    images = write_folder(tmp_path / "images", per_class=6)
    lines = [
        f"{path.relative_to(images)},{n % 2},{n}" for n, path in enumerate(images.rglob("*.png"))
    ]
    table = images / "t.csv"
    table.write_text("\n".join(["path,label,age", *lines]))
    ingest(table, tmp_path / "0")
    table.write_text("\n".join(["path,age,group,label", *(f"{line},z" for line in lines[::-1])]))
    assert update(table, tmp_path / "0", tmp_path / "1") == 12
    assert read_manifest(str(tmp_path / "1")).class_names == ("z",)


@contextlib.contextmanager
def _made_records(monkeypatch):
    """Notes the paths of the records that are made, not copied."""
    made = []

    def note(row, *arguments):
        made.append(row["path"].decode())
        return record_values(row, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr("image_pipeline.components.ingest.shards.record_values", note)
        yield made


def test_only_records_that_are_others_are_made(tmp_path, monkeypatch):
    images = write_folder(tmp_path / "images", per_class=20)
    ingest(images, tmp_path / "0", class_ids=True)
    (images / "cat" / "003.png").rename(images / "dog" / "903.png")
    (images / "cat" / "004.png").unlink()
    (images / "cat" / "905.png").write_bytes(encode_png(draw(5001)))
    earlier_set = find_earlier(str(tmp_path / "0"), "times")
    with _made_records(monkeypatch) as made:
        ingest(images, tmp_path / "1", earlier_set, class_ids=True)
    assert sorted(made) == ["cat/905.png", "dog/903.png"]
    ingest(images, tmp_path / "2", class_ids=True)
    assert read_files(tmp_path / "1") == read_files(tmp_path / "2")


def test_all_records_are_made_when_classes_get_other_numbers(tmp_path, monkeypatch):
    images = write_folder(tmp_path / "images", per_class=6)
    ingest(images, tmp_path / "0", class_ids=True)
    (images / "ant").mkdir()
    (images / "cat" / "003.png").rename(images / "ant" / "003.png")
    with _made_records(monkeypatch) as made:
        assert update(images, tmp_path / "0", tmp_path / "1", class_ids=True) == 12
    assert len(made) == 24  # Those of the fresh ingest, too.


def test_of_a_table_only_rows_that_say_something_else_are_read_again(tmp_path, monkeypatch):
    images = write_folder(tmp_path / "images", per_class=6)
    names = sorted(str(path.relative_to(images)) for path in images.rglob("*.png"))
    lines = [f"{name},{n % 2},{n}" for n, name in enumerate(names)]
    table = images / "t.csv"
    table.write_text("\n".join(["path,label,age", *lines]))
    ingest(table, tmp_path / "0")
    table.write_text("\n".join(["path,label,age", "", *lines[:-1], f"{names[-1]},1,99"]))
    earlier_set = find_earlier(str(tmp_path / "0"), "times")
    with _made_records(monkeypatch) as made:
        ingest(table, tmp_path / "1", earlier_set)
    assert made == names[-1:] and count_taken(str(tmp_path / "1")) == 12
    ingest(table, tmp_path / "2")
    assert read_files(tmp_path / "1") == read_files(tmp_path / "2")


@pytest.mark.parametrize("name", ["t.csv", "t.npz"])
def test_a_table_s_images_are_known_by_whichever_path_leads_to_it(tmp_path, monkeypatch, name):
    images = write_folder(tmp_path / "images", per_class=6)
    names = sorted(str(path.relative_to(images)) for path in images.rglob("*.png"))
    (images / "t.csv").write_text("\n".join(["path,label", *(f"{each},a" for each in names)]))
    np.savez(images / "t.npz", x=np.stack([draw(number) for number in range(12)]), y=["a"] * 12)
    (tmp_path / "linked").symlink_to(images)
    monkeypatch.chdir(tmp_path)
    one = {"splits": {"train": 1}}
    ingest(pathlib.Path("images") / name, tmp_path / "0", **one)
    (images / name).touch()
    assert update(images / name, tmp_path / "0", tmp_path / "1", **one) == 12
    assert update(tmp_path / "linked" / name, tmp_path / "1", tmp_path / "2", **one) == 12


def test_what_another_version_knows_is_not_used(tmp_path):
    images = write_folder(tmp_path / "images", per_class=6)
    checksum = ingest(images, tmp_path / "0").checksum
    path, old = tmp_path / "0" / ".sources", tmp_path / "old"
    with pa.memory_map(str(path)) as file:
        table = pa.ipc.open_file(file.read_buffer()[:-512]).read_all()
    with pa.ipc.new_file(str(old), table.drop(["annotations"]).schema) as writer:
        writer.write_table(table.drop(["annotations"]))
    earlier.finish_sources(str(old), checksum, "", str(tmp_path / "0"))
    assert update(images, tmp_path / "0", tmp_path / "1") == 0


def test_keys_are_found_in_whichever_batch_they_are():
    keys = [hashlib.sha256(str(number).encode()).digest()[:16] for number in range(40)]
    keys[7] = keys[23] = None
    parts = [pa.array(keys[a:b], pa.binary(16)) for a, b in ((0, 5), (5, 5), (5, 22), (22, 40))]
    heads, rows = earlier._sort_keys(pa.chunked_array([*parts[:2], parts[2].slice(1), parts[3]]))
    del keys[5]
    known = [number for number, key in enumerate(keys) if key is not None]
    assert sorted(rows.tolist()) == known
    assert heads.tolist() == sorted(int.from_bytes(keys[number][:8], "big") for number in known)
    assert [int.from_bytes(keys[row][:8], "big") for row in rows] == heads.tolist()
