import os
import pickle

import pytest

from image_pipeline.components.archives.archive import Archive
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.prepare_chunk import (
    count_threads,
    name_chunk,
    prepare_chunk,
    prepare_source,
)
from image_pipeline.components.ingest.prepared import read_rows
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import Folder, list_images
from image_pipeline.components.sources.references import ImageRef, make_chunks
from image_pipeline.components.threads import REMOTE_THREADS, usable_cores
from tests.data_set_files import write_tar
from tests.drawings import draw, encode_png, write_folder

pytestmark = pytest.mark.unit

LOSSLESS = IngestOptions(prepare={"encoding": "png"}, threads=2)


def prepare_folder(images, work, options=LOSSLESS):
    """The one chunk of a folder, its rows and its payloads."""
    (chunk,) = make_chunks(list_images(str(images)))
    prepared = prepare_chunk(chunk, str(images), WorkFolder(str(work)), options)
    rows = read_rows(f"{work}/prepared/{prepared.name}.arrow").to_pylist()
    payload = (work / "prepared" / f"{prepared.name}.payload").read_bytes()
    return prepared, rows, payload


def _key(prepared):
    """What the chunk depends on, without what tells one attempt from another."""
    key, _, attempt = prepared.name.partition("-")
    assert len(key) == 32 and len(attempt) == 8
    return key


def test_payloads_lie_behind_one_another_in_the_order_of_the_listing(tmp_path):
    images = write_folder(tmp_path / "images", per_class=30)
    prepared, rows, payload = prepare_folder(images, tmp_path / "work")
    assert (prepared.found, prepared.bad) == (60, 0)
    assert [row["path"] for row in rows] == [
        b"%s/%03d.png" % (name, number) for name in (b"cat", b"dog") for number in range(30)
    ]
    end = 0
    for row in rows:
        assert row["payload_offset"] == end
        end += row["payload_length"]
    assert end == len(payload)


def test_an_archive_that_changes_meanwhile_is_refused(tmp_path, monkeypatch):
    """Where a member was, another one's bytes may be now: nothing of the chunk is kept."""
    images = {f"cat/{n}.png": encode_png(draw(n, height=8, width=8)) for n in range(3)}
    write_tar(tmp_path / "a.tar", images)
    source = Archive(str(tmp_path / "a.tar"))
    (chunk,) = make_chunks(source.list())
    write_tar(tmp_path / "b.tar", dict(reversed(images.items())))
    other = (tmp_path / "b.tar").read_bytes()
    read = Archive.read

    def rewrite_and_read(self, ref, most_bytes):
        (tmp_path / "a.tar").write_bytes(other)
        return read(self, ref, most_bytes)

    monkeypatch.setattr(Archive, "read", rewrite_and_read)
    with pytest.raises(UserError, match=r"a.tar' was changed after its images were listed"):
        prepare_chunk(chunk, source.root, WorkFolder(str(tmp_path / "work")), LOSSLESS)
    assert not list((tmp_path / "work").rglob("*.arrow"))


def test_a_finished_chunk_is_not_done_again(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    (images / "cat" / "bad.png").write_bytes(b"bad")
    first, _, _ = prepare_folder(images, tmp_path / "work")
    payload = tmp_path / "work" / "prepared" / f"{first.name}.payload"
    before = payload.stat().st_mtime_ns
    again, _, _ = prepare_folder(images, tmp_path / "work")
    assert again == first and again.bad == 1
    assert payload.stat().st_mtime_ns == before


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_chunk_whose_rows_are_damaged_is_done_again(tmp_path, caplog, is_gone):
    images = write_folder(tmp_path / "images", per_class=3)
    first, rows, payload = prepare_folder(images, tmp_path / "work")
    path = tmp_path / "work" / "prepared" / f"{first.name}.arrow"
    content = path.read_bytes()
    at = content.index(b"cat/000.png")
    path.write_bytes(content[:at] + b"h" + content[at + 1 :])
    if is_gone:
        path.unlink()
    again, rows_again, payload_again = prepare_folder(images, tmp_path / "work")
    assert again.name != first.name and _key(again) == _key(first)
    without_name = [row | {"chunk": first.name} for row in rows_again]
    assert (without_name, payload_again) == (rows, payload)
    assert "rows of chunk 0" in caplog.text and "are prepared again" in caplog.text


def test_the_perceptual_hash_is_computed_only_where_asked(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    (images / "cat" / "bad.png").write_bytes(b"bad")
    hashes = {}
    for near_duplicates in (None, 0, 4):
        options = IngestOptions(near_duplicates=near_duplicates)
        prepared, rows, _ = prepare_folder(images, tmp_path / "work", options)
        hashes[near_duplicates] = prepared.name, [row["perceptual_hash"] for row in rows]
    assert hashes[None][1] == [None] * 7
    assert [each is None for each in hashes[4][1]] == [False] * 3 + [True] + [False] * 3
    assert hashes[0] == hashes[4]  # The distance matters to the plan, not to the chunk.
    assert hashes[0][0].partition("-")[0] != hashes[None][0].partition("-")[0]


@pytest.mark.parametrize(
    "other", [{"prepare": {"encoding": "raw"}}, {"label_pattern": r"(?P<label>.)"}]
)
def test_other_options_are_another_chunk(tmp_path, other):
    images = write_folder(tmp_path / "images", per_class=3)
    first, _, _ = prepare_folder(images, tmp_path / "work")
    second, _, _ = prepare_folder(images, tmp_path / "work", IngestOptions(**other))
    assert _key(first) != _key(second)


def test_a_changed_file_is_another_chunk(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    first, _, _ = prepare_folder(images, tmp_path / "work")
    os.utime(images / "cat" / "000.png", ns=(1, 1))
    second, _, _ = prepare_folder(images, tmp_path / "work")
    assert _key(first) != _key(second)


def test_threads_change_nothing(tmp_path):
    images = write_folder(tmp_path / "images", per_class=30)
    results = []
    for threads in (1, 4):
        options = IngestOptions(threads=threads)
        done, rows, payload = prepare_folder(images, tmp_path / str(threads), options)
        assert {row.pop("chunk") for row in rows} == {done.name}
        results.append((_key(done), rows, payload))
    assert results[0] == results[1]


def test_what_goes_to_a_worker_pickles(tmp_path):
    (chunk,) = make_chunks([ImageRef("a", 1, 2)])
    assert pickle.loads(pickle.dumps((chunk, LOSSLESS))) == (chunk, LOSSLESS)


def test_more_threads_read_behind_a_uri_unless_their_number_is_given():
    options = IngestOptions()
    assert count_threads(Folder("images"), options) == usable_cores() + 1
    assert count_threads(Folder("gs://bucket/images"), options) == REMOTE_THREADS == 64
    assert count_threads(Folder("gs://bucket/images"), IngestOptions(threads=3)) == 3


def test_what_another_seed_orders_differently_has_another_name(tmp_path):
    (chunk,) = make_chunks(list_images(str(write_folder(tmp_path / "images", per_class=1))))
    seeds = [LOSSLESS.model_copy(update={"seed": seed}) for seed in (1, 2)]
    local = {
        name_chunk(chunk, [], "images", WorkFolder(str(tmp_path)), options) for options in seeds
    }
    work = WorkFolder("gs://bucket/work")
    remote = {name_chunk(chunk, [], "images", work, options) for options in seeds}
    assert (len(local), len(remote), len(local & remote)) == (1, 2, 0)


def test_what_is_no_image_is_skipped_and_not_kept(tmp_path):
    images = write_folder(tmp_path / "images", per_class=2)
    (images / "README.md").write_text("About these images.")
    (images / "cat" / "Thumbs.db").write_bytes(b"\xd0\xcf\x11\xe0" + bytes(600))
    (images / "cat" / "bad.png").write_bytes(b"bad")
    prepared, rows, _ = prepare_folder(images, tmp_path / "work")
    assert (prepared.found, prepared.bad, prepared.skipped) == (7, 1, 2)
    skipped = {row["path"]: row["reason"] for row in rows if row["is_skipped"]}
    assert skipped == {b"README.md": "text", b"cat/Thumbs.db": "system_file"}
    kept = [path.read_bytes() for path in (tmp_path / "work" / "quarantine").iterdir()]
    assert kept == [b"bad"]
    assert prepare_folder(images, tmp_path / "work")[0] == prepared  # also where it was done before


def test_a_row_tells_where_an_image_came_from(tmp_path):
    (tmp_path / "images" / "cat").mkdir(parents=True)
    data = encode_png(draw(1, height=8, width=10))
    (tmp_path / "images" / "cat" / "1.png").write_bytes(data)
    options = IngestOptions(group_pattern=r"(?P<group>[^/]+)/", threads=1)
    _, (row,), _ = prepare_folder(tmp_path / "images", tmp_path / "work", options)
    expected = {
        "label": "cat",
        "group": "cat",
        "forced_split": None,
        "reason": None,
        "source_bytes": len(data),
        "format": "jpeg",
        "height": 8,
        "width": 10,
        "channels": 3,
        "source_format": "png",
        "orientation": 1,
    }
    assert {name: row[name] for name in expected} == expected
    assert len(row["record_id"]) == 16


def test_the_record_id_depends_on_content_and_path(tmp_path):
    for name, seed in [("a/1.png", 1), ("a/2.png", 1), ("b/1.png", 2)]:
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).write_bytes(encode_png(draw(seed)))
    _, rows, _ = prepare_folder(tmp_path / "images", tmp_path / "work")
    assert len({row["record_id"] for row in rows}) == 3
    assert len({row["sha256"] for row in rows}) == 2


@pytest.mark.parametrize(
    ("ref", "options", "reason"),
    [
        (ImageRef("cat/gone.png", 5, 0), {}, "vanished"),
        (ImageRef("cat/broken.png", 0, 0, "not_a_file"), {}, "not_a_file"),
        (ImageRef("cat/link.png", 0, 0, "outside"), {}, "outside"),
        (ImageRef("cat/text.png", 5, 0), {}, "not_an_image"),
        (ImageRef("top.png", 5, 0), {}, "no_label"),
        (ImageRef("cat/text.png", 10**12, 0), {}, "too_large_file"),
        (ImageRef("cat", 0, 0), {}, "not_a_file"),
        (
            ImageRef("cat/text.png", 5, 0),
            {"split_pattern": "(?P<split>[^/]+)/"},
            "unknown_split",
        ),
    ],
)
def test_what_cannot_be_written_says_why(tmp_path, ref, options, reason):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "text.png").write_bytes(b"hello")
    (tmp_path / "top.png").write_bytes(encode_png(draw(1)))
    row, payload = prepare_source(
        ref,
        Folder(str(tmp_path), options.get("follow_links", False)),
        WorkFolder(str(tmp_path)),
        IngestOptions(**options),
    )
    assert (row["reason"], payload) == (reason, b"")
    assert row["message"]


def test_a_bad_files_bytes_are_kept(tmp_path):
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "1.png").write_bytes(b"hello")
    prepared, (row,), _ = prepare_folder(tmp_path / "images", tmp_path / "work")
    assert prepared.bad == 1
    assert (tmp_path / "work" / "quarantine" / row["sha256"].hex()).read_bytes() == b"hello"


@pytest.mark.parametrize(("names", "split"), [({}, "train"), ({"train": "eval"}, "eval")])
def test_a_path_names_the_split_or_its_other_name(tmp_path, names, split):
    images = write_folder(tmp_path / "train", per_class=1).parent
    patterns = {"split_pattern": "(?P<split>train)/", "label_pattern": "[^/]+/(?P<label>[^/]+)/.+"}
    options = IngestOptions(**patterns, split_names=names, threads=1)
    _, rows, _ = prepare_folder(images, tmp_path / "work", options)
    assert [(row["forced_split"], row["label"]) for row in rows] == [(split, "cat"), (split, "dog")]


def test_a_large_archive_is_skipped_by_its_first_bytes(tmp_path):
    (tmp_path / "images.zip").write_bytes(b"PK\3\4" + bytes(5000))
    options = IngestOptions(prepare={"max_file_bytes": 1000})
    ref = ImageRef("images.zip", 5004, 0)
    row, _ = prepare_source(ref, Folder(str(tmp_path)), WorkFolder(str(tmp_path)), options)
    assert (row["reason"], row["is_skipped"]) == ("archive", True)
    assert "unpack it" in row["message"]
