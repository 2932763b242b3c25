"""A data set that is ingested again: what has not changed is taken from it, the rest is read."""

import contextlib
import importlib.metadata
import itertools
import json
import os
import re
import shutil

import pytest

from image_pipeline import cli
from image_pipeline.api import ingest
from image_pipeline.components.dataset.index_file import scan_index
from image_pipeline.components.dataset.manifest import has_manifest, read_manifest
from image_pipeline.components.dataset.paths import FORGET, NEXT, SOURCES
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.ingest import earlier, prepare_chunk, run
from image_pipeline.components.locks import hold_lock
from image_pipeline.show.ingest_summary import ingest_rows
from tests.drawings import draw, encode_png, write_folder, write_scenes
from tests.ingest_runs import read_files, stopped_at_a_shard

pytestmark = pytest.mark.beam

OPTIONS = {"shards": 2, "splits": {"train": 0.7, "eval": 0.3}, "max_bad_fraction": 0.5}


@pytest.fixture
def folder(tmp_path):
    """A folder of 21 files, of which one is damaged, and a data set of them."""
    write_folder(tmp_path / "images", per_class=10)
    (tmp_path / "images" / "cat" / "bad.png").write_bytes(b"no picture")
    _ingest(tmp_path)
    return tmp_path


@pytest.fixture
def done(monkeypatch):
    """The names of files that are read, and how many images are decoded."""
    noted = {"read": [], "decoded": 0}
    read, prepare = prepare_chunk.try_read, prepare_chunk.prepare_image

    def note_read(ref, *arguments):
        noted["read"].append(ref.path)
        return read(ref, *arguments)

    def note_decoded(*arguments):
        noted["decoded"] += 1
        return prepare(*arguments)

    monkeypatch.setattr(prepare_chunk, "try_read", note_read)
    monkeypatch.setattr(prepare_chunk, "prepare_image", note_decoded)
    return noted


def _ingest(folder, out="out", **options):
    return ingest(str(folder / "images"), str(folder / out), **OPTIONS | options)


def _is_fresh(folder, **options):
    """Whether the data set is that of an ingest of all images into another folder."""
    _ingest(folder, "fresh", **options)
    fresh, found = (
        {name: data for name, data in read_files(folder / out).items() if name[0] != "."}
        for out in ("fresh", "out")
    )
    shutil.rmtree(folder / "fresh")
    return fresh == found


def _change(folder):
    """Adds, repairs, removes and moves a picture; how many of the others stay."""
    images = folder / "images"
    (images / "cat" / "new.png").write_bytes(encode_png(draw(77)))
    (images / "cat" / "bad.png").write_bytes(encode_png(draw(78)))
    (images / "dog" / "003.png").unlink()
    (images / "dog" / "004.png").rename(images / "cat" / "moved.png")
    return 18


def _stop(*_):
    raise UserError("stopped")


def test_nothing_is_read_or_written_where_nothing_changed(folder, done):
    before = {path: os.stat(path).st_ino for path in (folder / "out").rglob("*")}
    summary = _ingest(folder)
    assert (summary["taken"], summary["found"], done) == (20, 21, {"read": [], "decoded": 0})
    assert all(os.stat(path).st_ino == before[path] for path in before if path.suffix != ".json")


def test_what_changed_is_read_and_what_is_new_decoded(folder, done):
    stays = _change(folder)
    summary = _ingest(folder)
    assert summary["taken"] == stays + 1  # The moved one is read, but known by its bytes.
    assert sorted(done["read"]) == ["cat/bad.png", "cat/moved.png", "cat/new.png"]
    assert done["decoded"] == 2
    assert (summary["written"], summary["written_before"]) == (21, 20)
    assert summary["changed"] == {"new": 2, "gone": 1, "renamed": 1, "relabelled": 1}
    assert _is_fresh(folder)


def test_a_file_that_is_replaced_before_an_ingest_goes_on_is_seen(folder, monkeypatch):
    path = folder / "images" / "cat" / "000.png"
    first, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    with stopped_at_a_shard(monkeypatch):
        _ingest(folder, compare="nothing")
    path.write_bytes(encode_png(draw(123)).ljust(len(first), b"\0")[: len(first)])
    os.utime(path, ns=times)
    _ingest(folder)
    assert _is_fresh(folder)


def test_copies_are_not_read_again(folder, done):
    cats = folder / "images" / "cat"
    shutil.copy(cats / "002.png", cats / "copy.png")
    assert _ingest(folder)["duplicates"] == 1
    done["read"].clear()
    (cats / "new.png").write_bytes(encode_png(draw(77)))
    assert _ingest(folder)["taken"] == 21
    assert sorted(done["read"]) == ["cat/bad.png", "cat/new.png"]
    (cats / "002.png").unlink()  # Then the copy is the one that is stored.
    assert (_ingest(folder)["duplicates"], _is_fresh(folder)) == (0, True)


def test_a_damaged_file_is_read_again_each_time(folder, done):
    (folder / "images" / "cat" / "new.png").write_bytes(encode_png(draw(77)))
    _ingest(folder)
    assert sorted(done["read"]) == ["cat/bad.png", "cat/new.png"]


@pytest.mark.parametrize(
    "compare, taken, read, decoded",
    [("times", 20, 1, 1), ("bytes", 20, 21, 1), ("nothing", 0, 21, 21)],
)
def test_images_are_compared_as_is_asked(folder, done, compare, taken, read, decoded):
    summary = _ingest(folder, compare=compare, seed=3, replace=True)
    assert (summary["taken"], len(done["read"]), done["decoded"]) == (taken, read, decoded)
    assert _is_fresh(folder, seed=3)


def test_another_file_with_the_same_name_size_and_time_is_seen(folder):
    path = folder / "images" / "cat" / "000.png"
    pixels = draw(0)
    first, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    other = next(
        data
        for seed in itertools.count(100)
        if len(data := encode_png(draw(seed, *pixels.shape[:2]))) <= len(first)
    )
    path.write_bytes(other.ljust(len(first), b"\0"))
    os.utime(path, ns=times)
    assert _ingest(folder)["taken"] == 19
    assert _is_fresh(folder)


def test_options_of_labels_and_splits_leave_pixels_alone(folder, done):
    changed = {"label_pattern": r"(?P<label>[a-z])[^/]*/.+", "splits": {"train": 0.5, "eval": 0.5}}
    assert _ingest(folder, replace=True, **changed)["taken"] == 20
    assert done["decoded"] == 1
    assert _is_fresh(folder, **changed)


@pytest.mark.parametrize(
    "options", [{"prepare": {"encoding": "png"}}, {"near_duplicates": 2}, {"leave_out": ["cat/"]}]
)
def test_options_of_pixels_make_them_anew(folder, options):
    taken = {"leave_out": 10}.get(*options, 0)
    assert _ingest(folder, replace=True, **options)["taken"] == taken
    assert _is_fresh(folder, **options)
    (folder / "images" / "dog" / "new.png").write_bytes(encode_png(draw(77)))
    assert _ingest(folder, **options)["taken"] == (taken or 20)
    assert _is_fresh(folder, **options)


def test_another_version_of_a_decoder_makes_all_anew(folder, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99")
    earlier.made_by.cache_clear()
    assert _ingest(folder)["taken"] == 0
    assert _ingest(folder)["taken"] == 20
    earlier.made_by.cache_clear()


def test_images_that_may_mean_something_else_now_are_asked_for_with_a_command(tmp_path, capsys):
    images = write_folder(tmp_path / "images", per_class=20)
    _ingest(tmp_path)
    (images / "cat" / "300.png").write_bytes(encode_png(draw(99)))
    assert cli.call(["update", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "have images of the same names throughout" in said
    assert f"use image-pipeline ingest --images {images} --output {tmp_path / 'out'} --repl" in said
    (way,) = re.findall(r"for the classes cat, dog, set '([^']*)'", said)
    _ingest(tmp_path, replace=True, label_pattern=way.partition("=")[2].strip('"'))
    assert cli.call(["update", str(tmp_path / "out")]) == 0


def test_what_a_class_must_have_is_counted_anew(folder):
    few = {"labels": {"min_images": 3}}
    for number in range(2):
        (folder / "images" / "ant").mkdir(exist_ok=True)
        (folder / "images" / "ant" / f"{number}.png").write_bytes(encode_png(draw(90 + number)))
    assert _ingest(folder, replace=True, **few)["skipped"] == 2
    (folder / "images" / "ant" / "3.png").write_bytes(encode_png(draw(99)))
    assert _ingest(folder, replace=True, **few)["skipped"] == 0
    assert _is_fresh(folder, **few)


@pytest.mark.wide
def test_an_update_that_is_stopped_leaves_a_whole_data_set(folder, monkeypatch):
    _change(folder)
    old = read_manifest(str(folder / "out")).checksum
    _ingest(folder, "fresh")
    new = read_manifest(str(folder / "fresh")).checksum
    rename, replace = os.rename, os.replace
    seen = []

    class Stopped(BaseException):
        """As a signal raises."""

    for stop_at in itertools.count():
        calls = itertools.count()

        def stop_or(call, calls=calls, stop_at=stop_at):
            def called(*arguments, **options):
                if next(calls) == stop_at:
                    raise Stopped
                return call(*arguments, **options)

            return called

        with monkeypatch.context() as patched, contextlib.suppress(Stopped, RuntimeError):
            patched.setattr(os, "rename", stop_or(rename))
            patched.setattr(os, "replace", stop_or(replace))
            _ingest(folder)
        is_there = has_manifest(str(folder / "out"))
        seen.append(read_manifest(str(folder / "out")).checksum if is_there else None)
        assert is_there or has_manifest(str(folder / "out" / NEXT))
        if next(calls) <= stop_at:
            break
        if seen[-1] == new:  # From here on, the next would find nothing to do.
            shutil.rmtree(folder / "out")
            shutil.copytree(folder / "fresh", folder / "out")
    assert seen[0] == old and seen[-1] == new
    assert _is_fresh(folder)


def test_a_file_that_could_not_be_read_is_read_again(folder, monkeypatch):
    """As on a disk that failed: nothing else tells that it can be read now."""
    real = prepare_chunk.try_read

    def fail(ref, *arguments):
        if ref.path == "cat/003.png":
            return BadImage("unreadable", "Input/output error")
        return real(ref, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(prepare_chunk, "try_read", fail)
        assert _ingest(folder, "failed")["written"] == 19
    assert _ingest(folder, "failed")["written"] == 20


@pytest.mark.parametrize("compare", ["times", "nothing"])
def test_the_old_data_set_is_whole_until_the_new_one_is(folder, monkeypatch, compare):
    _change(folder)
    old = read_manifest(str(folder / "out")).checksum
    with monkeypatch.context() as patched, pytest.raises(UserError, match="stopped"):
        patched.setattr(run, "write_manifest", _stop)
        _ingest(folder, compare=compare)
    assert read_manifest(str(folder / "out")).checksum == old
    assert verify_data_set(str(folder / "out")) == []
    _ingest(folder, compare=compare)
    assert _is_fresh(folder)


def test_an_update_stopped_before_it_notes_its_images_goes_on(folder, monkeypatch):
    _change(folder)
    with monkeypatch.context() as patched, pytest.raises(UserError, match="stopped"):
        patched.setattr("image_pipeline.run.ingest.write_source", _stop)
        _ingest(folder)
    assert cli.call(["update", str(folder / "out")]) == 0
    assert _is_fresh(folder)


def test_an_update_leaves_what_another_one_renames_alone(folder, capsys):
    _ingest(folder, "out/.next")
    with hold_lock(str(folder / "out")):
        assert cli.call(["update", str(folder / "out")]) == 1
    assert "Another run" in capsys.readouterr().err
    assert has_manifest(str(folder / "out" / NEXT))


def test_what_a_stopped_update_wrote_is_not_taken_for_images_of_other_labels(folder, monkeypatch):
    """Its shards have the same images at the same places."""
    table = folder / "images" / "table.csv"

    def label(names):
        rows = [
            f"{animal}/{n:03d}.png,{names[n % 2]}" for animal in ("cat", "dog") for n in range(10)
        ]
        table.write_text("\n".join(["path,label", *rows]))
        return ingest(str(table), str(folder / "table"), **OPTIONS)

    label("ab")
    with monkeypatch.context() as patched, pytest.raises(UserError, match="stopped"):
        patched.setattr(run, "write_manifest", _stop)
        label("ba")
    assert label("cd")["taken"] == 20
    found = (rows["label"].to_pylist() for rows in scan_index(str(folder / "table"), ["label"]))
    assert set(itertools.chain(*found)) == {"c", "d"}


@pytest.mark.parametrize("name", [SOURCES, "Split-train/data_tfrecord-00000-of-00002"])
def test_damage_of_what_is_taken_is_named_with_the_way_out(folder, name):
    path = folder / "out" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(bytes(content))
    _change(folder)
    before = read_files(folder / "out")
    with pytest.raises(UserError, match=rf"{name}.*; delete .*: then all images are read"):
        _ingest(folder)
    after = read_files(folder / "out")
    assert all(after[name] == before[name] for name in before if name[0] != ".")
    (folder / "out" / SOURCES).unlink()
    assert _ingest(folder)["taken"] == 0
    assert _is_fresh(folder)


def test_without_the_file_all_images_are_read(folder, done):
    (folder / "out" / SOURCES).unlink()
    assert (_ingest(folder)["taken"], len(done["read"])) == (0, 21)
    assert _ingest(folder)["taken"] == 20


def test_the_command_takes_images_and_options_of_the_data_set(folder, capsys):
    stays = _change(folder)
    assert cli.call(["update", str(folder / "out"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["found"], summary["taken"]) == (21, stays + 1)
    rows = dict(ingest_rows(summary))
    assert rows["images found"] == f"21, {stays + 1} of them as they were"
    assert _is_fresh(folder)
    (folder / "images").rename(folder / "elsewhere")
    assert cli.call(["update", str(folder / "out"), "--images", str(folder / "elsewhere")]) == 0
    (folder / "elsewhere").rename(folder / "images")
    assert _is_fresh(folder)


def test_images_that_have_moved_are_found_there_from_then_on(folder):
    (folder / "images").rename(folder / "elsewhere")
    out = str(folder / "out")
    assert cli.call(["update", out, "--images", str(folder / "elsewhere")]) == 0
    assert cli.call(["update", out]) == 0
    (folder / "elsewhere" / "cat" / "new.png").write_bytes(encode_png(draw(77)))
    assert cli.call(["update", out]) == 0
    assert read_manifest(out).books.written == 21


def test_images_that_are_not_known_are_asked_for(folder, capsys):
    (folder / "out" / ".source.json").unlink()
    assert cli.call(["update", str(folder / "out")]) == 1
    assert "name them by --images" in capsys.readouterr().err


def test_what_is_to_be_forgotten_still_is_said(folder):
    assert _ingest(folder)["noticed"] == []
    (folder / "out" / FORGET).write_text("{}")
    (sentence,) = _ingest(folder)["noticed"]
    assert sentence.endswith(f"still to be forgotten: image-pipeline forget {folder / 'out'}")


def test_retry_says_what_it_has_become(folder, capsys):
    arguments = ["--images", "images", "--output", "out"]
    assert cli.call(["quarantine", "retry", *arguments]) == 1
    assert "image-pipeline update DATA_SET" in " ".join(capsys.readouterr().err.split())


def test_an_image_that_had_no_mask_is_not_taken_where_masks_are_wanted(tmp_path):
    write_scenes(tmp_path / "images", 12)
    cells = [f"images/{n:02d}.png,masks/{n:02d}.png,{n % 2}" for n in range(12)]
    table = tmp_path / "images" / "table.csv"
    table.write_text("\n".join(["path,mask,label", *cells]))

    def ingest_table(out, **options):
        return ingest(str(table), str(tmp_path / out), **OPTIONS | options)

    assert ingest_table("out", columns={"mask": None})["written"] == 12
    (tmp_path / "images" / "masks" / "03.png").write_bytes(b"no mask")
    (tmp_path / "images" / "masks" / "04.png").unlink()
    for out in ("out", "fresh"):
        found = ingest_table(out, replace=True)
        assert (found["written"], found["taken"]) == (10, 0)
        assert found["quarantine_reasons"] == {"bad_mask": 1, "no_mask": 1}
