"""Ingest as a whole: the wiring, the files it leaves, and what happens when it is interrupted."""

import collections
import hashlib
import os
import pathlib
import shutil
import uuid

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from image_pipeline.components.dataset import record, tfrecord
from image_pipeline.components.dataset.lists import Quarantined, read_list
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import run, shards
from image_pipeline.show.ingest_summary import (
    ingest_rows,
    summarize_data_set,
    summarize_manifest,
)
from tests.drawings import draw, write_folder
from tests.ingest_runs import ingest, read_files, read_lines

pytestmark = pytest.mark.beam


def read_examples(output, split):
    """The records of a split, parsed by TensorFlow's own protocol buffer."""
    import tensorflow as tf

    for path in sorted(pathlib.Path(output, f"Split-{split}").iterdir()):
        with path.open("rb") as file:
            for data in tfrecord.read_records(file):
                yield tf.train.Example.FromString(data).features.feature


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("source") / "images", per_class=40)


@pytest.fixture(scope="module")
def output(images, tmp_path_factory):
    folder = tmp_path_factory.mktemp("output")
    ingest(images, folder)
    return folder


def test_every_image_is_written_once_with_its_pixels(images, output):
    import cv2

    seen = {}
    for split in ("train", "eval"):
        for feature in read_examples(output, split):
            path = feature[record.FILENAME].bytes_list.value[0].decode()
            assert path not in seen
            seen[path] = feature
            label, number = path.split("/")
            stored = np.frombuffer(feature[record.IMAGE].bytes_list.value[0], np.uint8)
            pixels = cv2.imdecode(stored, cv2.IMREAD_COLOR_RGB)
            expected = draw(1000 * ["cat", "dog"].index(label) + int(number[:3]))
            assert (pixels == expected).all()
            assert feature[record.LABEL].bytes_list.value == [label.encode()]
            assert feature[record.HEIGHT].int64_list.value == [8]
    assert len(seen) == 80


def test_no_working_files_are_left(output):
    assert sorted(path.name for path in output.iterdir()) == [
        ".sources",
        "Split-eval",
        "Split-train",
        "duplicates.jsonl",
        "index.parquet",
        "index.rows",
        "manifest.json",
        "quarantine.jsonl",
    ]


def test_the_manifest_describes_the_files(output):
    manifest = read_manifest(str(output))
    assert (manifest.books.found, manifest.books.written) == (80, 80)
    assert sum(split.records for split in manifest.splits.values()) == 80
    for split in manifest.splits.values():
        counts = [shard.records for shard in split.shards]
        assert len(counts) == 2 and max(counts) - min(counts) <= 1
        for shard in split.shards:
            data = (output / shard.file).read_bytes()
            assert len(data) == shard.bytes
            assert hashlib.sha256(data).hexdigest() == shard.sha256
    classes = manifest.books.classes
    assert {name: classes["train"][name] + classes["eval"][name] for name in ("cat", "dog")} == {
        "cat": 40,
        "dog": 40,
    }


def test_the_index_points_at_records_and_payloads(images, output):
    rows = pq.read_table(output / "index.parquet").to_pylist()
    assert len(rows) == 80
    for row in rows:
        shard = output / f"Split-{row['split']}" / f"data_tfrecord-{row['shard']:05d}-of-00002"
        data = shard.read_bytes()
        end = row["record_offset"] + tfrecord.HEADER_BYTES + row["record_length"]
        framed = data[row["record_offset"] : end + tfrecord.FOOTER_BYTES]
        assert framed == tfrecord.frame(framed[tfrecord.HEADER_BYTES : -tfrecord.FOOTER_BYTES])
        payload = data[row["payload_offset"] : row["payload_offset"] + row["payload_length"]]
        assert payload.startswith(b"\x89PNG") and payload.endswith(b"IEND\xaeB`\x82")
        assert (images / row["source"]).exists()


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 4}])
def test_threads_never_change_a_byte(images, output, tmp_path, options):
    ingest(images, tmp_path, **options)
    assert read_files(tmp_path) == read_files(output)


def test_the_seed_changes_the_order_only(images, output, tmp_path):
    ingest(images, tmp_path, seed=1)
    for split in ("train", "eval"):
        first, second = (
            [feature[record.SOURCE_ID].bytes_list.value[0] for feature in read_examples(o, split)]
            for o in (output, tmp_path)
        )
        assert first != second and sorted(first) == sorted(second)


def test_shard_bytes_decides_the_number_of_shards(images, output, tmp_path):
    stored = sum(row["payload_length"] for row in _index(output, "train"))
    manifest = ingest(images, tmp_path, shards=None, shard_bytes=int(stored / 3.5))
    assert len(manifest.splits["train"].shards) == 4


def _index(output, split):
    return [r for r in pq.read_table(output / "index.parquet").to_pylist() if r["split"] == split]


def test_bad_files_and_duplicates_are_listed_and_the_books_balance(images, tmp_path):
    source = write_folder(tmp_path / "images", per_class=40)
    (source / "cat" / "text.jpg").write_bytes(b"hello")
    (source / "dog" / "zz copy.png").write_bytes((source / "cat" / "003.png").read_bytes())
    with open(os.fsencode(source / "dog") + b"/\xff.png", "wb") as file:
        file.write(b"")
    keep = {"conflicting_labels": "keep"}
    manifest = ingest(source, tmp_path / "out", max_bad_fraction=0.1, **keep)
    books = manifest.books
    assert (books.found, books.written, books.duplicates, books.quarantined) == (83, 80, 1, 2)
    assert manifest.books.quarantine_reasons == {"empty": 1, "not_an_image": 1}
    assert manifest.books.conflicting_labels == 1
    lines = read_lines(tmp_path / "out" / "quarantine.jsonl")
    assert [(os.fsencode(line["path"]), line["reason"]) for line in lines] == [
        (b"cat/text.jpg", "not_an_image"),
        (b"dog/\xff.png", "empty"),
    ]
    assert (tmp_path / "out" / "quarantine" / lines[0]["sha256"]).read_bytes() == b"hello"
    (line,) = read_lines(tmp_path / "out" / "duplicates.jsonl")
    assert (line["path"], line["original"]) == ("dog/zz copy.png", "cat/003.png")
    assert (line["label"], line["original_label"]) == ("dog", "cat")
    assert line["written"] is False


def test_images_of_rare_classes_are_skipped_and_names_are_joined(tmp_path):
    source = write_folder(tmp_path / "images", per_class=20)
    for name in ("Dog", "dgo"):
        (source / name).mkdir()
        (source / "dog" / ("000.png" if name == "Dog" else "001.png")).rename(
            source / name / "one.png"
        )
    manifest = ingest(source, tmp_path / "out", labels={"fold_case": True, "min_images": 2})
    assert (manifest.books.found, manifest.books.written, manifest.books.skipped) == (40, 39, 1)
    counts = collections.Counter()
    for split in manifest.books.classes.values():
        counts.update(split)
    assert counts == {"cat": 20, "dog": 19}
    (line,) = read_lines(tmp_path / "out" / "skipped.jsonl")
    assert (line["path"], line["kind"]) == ("dgo/one.png", "rare_class")


def test_kept_copies_are_listed_with_their_labels(tmp_path):
    source = write_folder(tmp_path / "images", per_class=20)
    (source / "dog" / "zz copy.png").write_bytes((source / "cat" / "003.png").read_bytes())
    manifest = ingest(source, tmp_path / "out", duplicates="keep_all", conflicting_labels="keep")
    assert (manifest.books.found, manifest.books.written, manifest.books.duplicates) == (41, 41, 0)
    assert manifest.books.conflicting_labels == 1
    (line,) = read_lines(tmp_path / "out" / "duplicates.jsonl")
    assert (line["path"], line["original"]) == ("dog/zz copy.png", "cat/003.png")
    assert (line["label"], line["original_label"]) == ("dog", "cat")
    assert line["written"] is True
    rows = pq.read_table(tmp_path / "out" / "index.parquet").to_pylist()
    splits = {row["source"]: row["split"] for row in rows}
    assert splits["dog/zz copy.png"] == splits["cat/003.png"]


def test_a_copy_under_another_class_is_quarantined_with_the_original(tmp_path):
    source = write_folder(tmp_path / "images", per_class=20)
    (source / "dog" / "zz copy.png").write_bytes((source / "cat" / "003.png").read_bytes())
    with pytest.raises(
        UserError, match="2 have the bytes of a file with another label, for example"
    ):
        ingest(source, tmp_path / "out")
    manifest = ingest(source, tmp_path / "out", max_bad_fraction=0.05)
    books = ("found", "written", "duplicates", "quarantined", "skipped")
    assert [getattr(manifest.books, key) for key in books] == [41, 39, 0, 2, 0]
    assert manifest.books.quarantine_reasons == {"conflicting_label": 2}
    first, second = read_lines(tmp_path / "out" / "quarantine.jsonl")
    assert (first["path"], second["path"]) == ("cat/003.png", "dog/zz copy.png")
    assert (
        "of class 'cat', but has the bytes of 'dog/zz copy.png' of class 'dog'"
        in (first["message"])
    )
    assert verify_data_set(str(tmp_path / "out")) == []


def test_what_is_left_out_is_skipped_by_its_path_whatever_it_is(tmp_path):
    images = write_folder(tmp_path / "images", per_class=4)
    (images / "cat" / "bad.png").write_bytes(b"text")
    (images / "dog" / "001.png").write_bytes((images / "dog" / "000.png").read_bytes())
    marks = tmp_path / "marks.txt"
    marks.write_text("cat/002.png\ncat/bad.png\ndog/000.png\nnot/there.png\n")
    manifest = ingest(images, tmp_path / "out", leave_out=str(marks))
    books = manifest.books
    assert (books.found, books.written, books.quarantined, books.duplicates) == (9, 6, 0, 0)
    assert books.skipped_kinds == {"left_out": 3}
    assert "dog/001.png" in read_sources(tmp_path / "out")
    assert not {"cat/002.png", "dog/000.png"} & read_sources(tmp_path / "out")
    lines = read_lines(tmp_path / "out" / "skipped.jsonl")
    assert [line["path"] for line in lines] == ["cat/002.png", "cat/bad.png", "dog/000.png"]
    assert {line["message"] for line in lines} == {"named by ingest.leave_out"}
    assert verify_data_set(str(tmp_path / "out")) == []
    for path in ("cat/002.png", "cat/bad.png", "dog/000.png"):
        (images / path).unlink()
    ingest(images, tmp_path / "without")
    assert read_sources(tmp_path / "without") == read_sources(tmp_path / "out")
    rows = dict(ingest_rows(summarize_data_set(str(tmp_path / "out"))))
    assert rows["skipped"].startswith("3 (left_out 3, for example cat/002.png)")
    assert rows["of no image"] == "1 path of ingest.leave_out: not/there.png"
    without = dict(ingest_rows(summarize_data_set(str(tmp_path / "without"))))
    assert "of no image" not in without


def test_classes_that_chance_left_out_of_a_split_are_told_with_the_way_out(tmp_path):
    images = write_folder(tmp_path / "images", classes=("cat", "dog", "owl"), per_class=3)
    (images / "rare").mkdir()
    (images / "owl/002.png").rename(images / "rare/000.png")

    def tell(name, **options):
        ingest(images, tmp_path / name, splits={"train": 0.6, "eval": 0.4}, **options)
        rows = ingest_rows(summarize_data_set(str(tmp_path / name)))
        return {row: text for row, text in rows if row.startswith("not in")}

    way_out = "ingest.stratify=true gives every class its share of each split"
    missing = {"not in eval": "1 class: owl", "not in train": "1 class: rare"}
    assert tell("chance") == {row: f"{names}; {way_out}" for row, names in missing.items()}
    # Of two images 0.8 are due to eval, and one to train.
    assert tell("shared", stratify=True) == {"not in eval": "2 classes: owl, rare"}
    own = {"0": "eval", "1": "train", "2": "train"}
    given = tell("given", split_pattern=r"[^/]+/00(?P<split>\d)", split_names=own)
    assert given == {"not in train": "1 class: rare"}


def read_sources(data_dir):
    return set(pq.read_table(data_dir / "index.parquet")["source"].to_pylist())


def test_what_is_no_image_is_skipped_and_the_books_balance(tmp_path):
    """A folder of fewer than a hundred images is not stopped by what lies beside them."""
    source = write_folder(tmp_path / "images", per_class=10)
    (source / "README.md").write_text("About these images.")
    (source / "cat" / "Thumbs.db").write_bytes(b"\xd0\xcf\x11\xe0" + bytes(600))
    (source / "all.zip").write_bytes(b"PK\3\4" + bytes(100))
    manifest = ingest(source, tmp_path / "out")
    books = ("found", "written", "duplicates", "quarantined", "skipped")
    assert [getattr(manifest.books, key) for key in books] == [23, 20, 0, 0, 3]
    assert manifest.books.skipped_kinds == {"archive": 1, "system_file": 1, "text": 1}
    rows = dict(ingest_rows(summarize_manifest(manifest)))
    assert rows["skipped, not images"] == (
        "3 (archive 1, for example all.zip; system_file 1, for example cat/Thumbs.db; "
        "text 1, for example README.md); see skipped.jsonl"
    )
    lines = read_lines(tmp_path / "out" / "skipped.jsonl")
    assert [(line["path"], line["kind"], line["bytes"]) for line in lines] == [
        ("README.md", "text", 19),
        ("all.zip", "archive", 104),
        ("cat/Thumbs.db", "system_file", 604),
    ]
    assert verify_data_set(str(tmp_path / "out")) == []
    (tmp_path / "out" / "skipped.jsonl").write_text("")
    (finding,) = verify_data_set(str(tmp_path / "out"))
    assert finding.file == "skipped.jsonl"


def test_images_of_a_note_are_named_and_counted(tmp_path):
    source = write_folder(tmp_path / "images", per_class=10)
    for number in range(6):
        image = Image.new("RGBA", (9, 9), (number, 0, 0, 99))
        image.save(source / "cat" / f"see{number}.png")
    Image.new("L", (9, 9)).save(source / "dog" / "old.png")
    ingest(source, tmp_path / "out")
    summary = summarize_data_set(str(tmp_path / "out"))
    found = {
        kind: (note["images"], len(note["examples"])) for kind, note in summary["notes"].items()
    }
    assert found == {"alpha": (6, 5), "gray": (1, 1)}
    names = set(summary["notes"]["alpha"]["examples"])
    assert len(names) == 5 and names <= {f"cat/see{number}.png" for number in range(6)}
    alpha, gray = (text for name, text in ingest_rows(summary) if name == "noted")
    shown = ", ".join(summary["notes"]["alpha"]["examples"])
    assert alpha == f"transparent pixels, laid on the background (alpha): 6, {shown}, …"
    assert gray == "gray, stored as colour (gray): 1, dog/old.png"


def test_a_folder_of_archives_says_what_to_do(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "all.zip").write_bytes(b"PK\3\4" + bytes(100))
    with pytest.raises(UserError, match=r"(?s)None of the 1 files.*1 archive.*unpack it"):
        ingest(tmp_path / "images", tmp_path / "out")


def test_links_never_carry_bytes_from_outside_into_the_data_set(tmp_path):
    source = write_folder(tmp_path / "images", per_class=10)
    (tmp_path / "secret").write_bytes(b"root:secret")
    os.symlink(tmp_path / "secret", source / "cat" / "passwd.jpg")
    os.symlink("circle.jpg", source / "cat" / "circle.jpg")
    os.symlink("..", source / "cat" / "up")
    manifest = ingest(source, tmp_path / "out", max_bad_fraction=0.2)
    assert manifest.books.quarantine_reasons == {"not_a_file": 1, "outside": 1}
    assert manifest.books.skipped_kinds == {"listed_before": 1}
    assert manifest.books.written == 20
    assert not any(b"secret" in data for data in read_files(tmp_path / "out").values())
    followed = ingest(source, tmp_path / "followed", max_bad_fraction=0.2, follow_links=True)
    assert followed.books.quarantine_reasons == {"not_a_file": 1, "not_an_image": 1}


def test_copies_can_stop_the_run(tmp_path):
    source = write_folder(tmp_path / "images", per_class=5)
    (source / "dog" / "zz copy.png").write_bytes((source / "cat" / "003.png").read_bytes())
    with pytest.raises(UserError, match=r"1 files repeat .* ingest.duplicates=error"):
        ingest(source, tmp_path / "out", duplicates="error")


def test_too_many_bad_files_stop_the_run_and_are_explained(tmp_path):
    source = write_folder(tmp_path / "images", per_class=5)
    for number in range(5):
        (source / "cat" / f"bad{number}.png").write_bytes(b"text")
    with pytest.raises(UserError) as caught:
        ingest(source, tmp_path / "out")
    message = str(caught.value)
    assert message.startswith(
        "5 of 15 files are not usable, more than ingest.max_bad_fraction=0.01"
    )
    assert "5 not_an_image, for example 'cat/bad0.png'" in message
    assert "running" not in message
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    source = write_folder(tmp_path / "images", per_class=5)
    for number in range(5):
        (source / "cat" / f"bad{number}.png").write_bytes(b"text")
    (source / "dog" / "same.png").write_bytes((source / "cat" / "000.png").read_bytes())
    options = {"duplicates": "error", "conflicting_labels": "error"}
    splits = {"train": 1 - 2e-9, "a": 1e-9, "b": 1e-9}
    with pytest.raises(UserError) as caught:
        ingest(source, tmp_path / "out", splits=splits, **options)
    message = str(caught.value).splitlines()
    assert message[0].startswith("5 of 16 files are not usable, more than ingest.max_bad_fraction=")
    assert message[2:] == [
        "Repair or remove them, or raise ingest.max_bad_fraction.",
        "1 files repeat the bytes of another one, and ingest.duplicates=error; remove them, or set "
        "ingest.duplicates=keep_first.",
        "2 files have the bytes of a file with another label, and ingest.conflicting_labels=error; "
        "remove those that are wrong, or set ingest.conflicting_labels=quarantine, which lists "
        "them.",
        "The splits 'a', 'b' would be empty: 9 usable images (2 more have the bytes of a file with "
        "another label: remove those that are wrong, or set ingest.conflicting_labels=keep), "
        f"shares {splits}; add images, give them a larger share in ingest.splits, or remove them "
        "there.",
    ]
    refused = read_list(str(tmp_path / "out" / ".work"), Quarantined)
    assert [(line.path, line.reason) for line in refused] == [
        ("cat/000.png", "conflicting_label"),
        *((f"cat/bad{number}.png", "not_an_image") for number in range(5)),
        ("dog/same.png", "conflicting_label"),
    ]


def test_no_usable_image_stops_the_run_whatever_is_allowed(tmp_path):
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "1.png").write_bytes(b"text")
    with pytest.raises(UserError, match="None of the 1 files found is a usable image"):
        ingest(tmp_path / "images", tmp_path / "out", max_bad_fraction=1)


def test_an_empty_folder_stops_the_run(tmp_path):
    (tmp_path / "images").mkdir()
    with pytest.raises(UserError, match="holds no files"):
        ingest(tmp_path / "images", tmp_path / "out")


def test_an_interrupted_ingest_goes_on_with_the_same_bytes(images, output, tmp_path, monkeypatch):
    write_records, calls = shards._write_records, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return write_records(*args)

    monkeypatch.setattr(shards, "_write_records", interrupted)
    with pytest.raises(UserError, match="No space left on device; fix that and run again"):
        ingest(images, tmp_path)
    assert not (tmp_path / "manifest.json").exists()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("Split-*/*")}
    assert len(before) == 2
    ingest(images, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert read_files(tmp_path) == read_files(output)


def _interrupt(monkeypatch, module, name, images, output):
    """Ends an ingest where it calls this function of the module."""

    def interrupted(*args):
        raise RuntimeError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr(module, name, interrupted)
        with pytest.raises(RuntimeError, match="interrupted"):
            ingest(images, output)


def test_an_image_damaged_between_two_runs_gets_no_record(images, output, tmp_path, monkeypatch):
    """A record's own checksum would be that of the damage."""
    _interrupt(monkeypatch, shards, "_write_records", images, tmp_path)
    (path,) = (tmp_path / ".work").rglob("*.payload")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    said = r"\.payload', .* has changed since it was written; delete the folder '.*/\.work' and"
    with pytest.raises(UserError, match=said):
        ingest(images, tmp_path)
    assert not (tmp_path / "manifest.json").exists()
    shutil.rmtree(tmp_path / ".work")
    ingest(images, tmp_path)
    assert read_files(tmp_path) == read_files(output)


@pytest.mark.whole
@pytest.mark.parametrize("pattern", ["index/**/*.arrow", "index/**/*.json", "prepared/*.json"])
@pytest.mark.parametrize("is_cut", [True, False])
def test_what_a_run_trusts_of_the_one_before_is_made_again_if_damaged(
    images, output, tmp_path, monkeypatch, pattern, is_cut
):
    _interrupt(monkeypatch, run, "write_manifest", images, tmp_path)
    paths = list((tmp_path / ".work").glob(pattern))
    assert paths
    for path in paths:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content[: len(content) // 2] if is_cut else content)
    ingest(images, tmp_path)
    assert read_files(tmp_path) == read_files(output)


def test_a_finished_shard_that_was_cut_is_written_again(images, output, tmp_path, monkeypatch):
    def interrupted(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(run, "write_manifest", interrupted)
        with pytest.raises(UserError, match="the disk is full"):
            ingest(images, tmp_path)
    for shard in tmp_path.glob("Split-*/*-of-00002"):
        shard.write_bytes(shard.read_bytes()[:-100])
    ingest(images, tmp_path)
    assert read_files(tmp_path) == read_files(output)


def test_shards_of_an_earlier_layout_do_not_stay(images, output, tmp_path):
    ingest(images, tmp_path, shards=5)
    ingest(images, tmp_path)
    assert read_files(tmp_path) == read_files(output)


def test_what_a_killed_run_was_writing_does_not_stay(images, output, tmp_path):
    files_of_output = [path for path in output.rglob("*") if path.is_file()]
    for path in files_of_output:
        killed = tmp_path / f"{path.relative_to(output)}.{uuid.uuid4().hex}.tmp"
        killed.parent.mkdir(parents=True, exist_ok=True)
        killed.write_bytes(b"half")
    (tmp_path / "manifest.json.mine.tmp").write_bytes(b"someone's own")
    ingest(images, tmp_path)
    assert (tmp_path / "manifest.json.mine.tmp").read_bytes() == b"someone's own"
    (tmp_path / "manifest.json.mine.tmp").unlink()
    assert len(files_of_output) >= 8 and read_files(tmp_path) == read_files(output)


def test_a_manifest_of_an_earlier_run_goes_before_the_first_shard_changes(
    images, tmp_path, monkeypatch
):
    ingest(images, tmp_path)

    def fails(*args):
        assert not (tmp_path / "manifest.json").exists()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shards, "_write_records", fails)
    with pytest.raises(UserError, match="No space"):
        ingest(images, tmp_path, seed=5)
