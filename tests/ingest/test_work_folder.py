"""A working folder belongs to the last run, keeps its listing, and trusts only what is whole."""

import pickle

import google_crc32c
import pytest

from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import run, work_folder
from image_pipeline.components.ingest.run import list_chunks
from image_pipeline.components.ingest.work_folder import WorkFolder, sum_file
from image_pipeline.components.meaning.listing import Listing, list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import FOLDER
from image_pipeline.components.sources.references import Annotations, Chunk, ImageRef, make_chunks
from image_pipeline.components.sources.rows import Location
from image_pipeline.components.spool import Spool
from tests.drawings import write_folder
from tests.ingest_runs import ingest, read_files

pytestmark = pytest.mark.beam


def test_the_last_run_is_the_only_one(tmp_path):
    first = WorkFolder(str(tmp_path / "work")).begin()
    first.check()
    second = WorkFolder(first.path).begin()
    with pytest.raises(UserError, match=r"Another run has begun in .*work.; let|ends here"):
        first.check()
    second.check()
    (tmp_path / "work" / "run").unlink()
    with pytest.raises(UserError, match="Another run has ended in"):
        second.check()
    WorkFolder(first.path).check()


def test_a_run_that_is_refused_leaves_no_folder_and_one_that_fails_keeps_what_it_prepared(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        ingest(tmp_path / "none", tmp_path / "out")
    assert not (tmp_path / "out" / ".work").exists()
    images = write_folder(tmp_path / "images")
    (images / "cat" / "bad.png").write_bytes(b"no image")
    with pytest.raises(UserError, match="1 of 21 files are not usable"):
        ingest(images, tmp_path / "out")
    kept = {path.name for path in (tmp_path / "out" / ".work").iterdir()}
    assert "prepared" in kept and "run" not in kept


def test_a_value_is_read_as_it_was_written(tmp_path):
    work = WorkFolder(str(tmp_path))
    for value in ({"a": [1, "ü"]}, [], None):
        work.write_sealed("mark.json", value)
        assert work.read_sealed("mark.json") == value


def test_any_damage_is_as_good_as_no_file(tmp_path):
    path, work = tmp_path / "mark.json", WorkFolder(str(tmp_path))
    assert work.read_sealed("mark.json") is None
    work.write_sealed("mark.json", {"count": 8})
    content = path.read_bytes()
    damaged = [content[:length] for length in range(len(content))]
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    damaged += [b'{"count": 8}', content + b" "]
    for each in damaged:
        path.write_bytes(each)
        assert work.read_sealed("mark.json") is None, each


def test_a_mark_of_another_version_is_as_good_as_none(tmp_path, monkeypatch):
    work = WorkFolder(str(tmp_path))
    work.write_sealed("mark.json", 8)
    monkeypatch.setattr(work_folder, "_VERSION", 3)
    assert work.read_sealed("mark.json") is None


def test_a_file_is_summed_and_a_missing_one_is_empty(tmp_path):
    (tmp_path / "a").write_bytes(b"aa")
    assert sum_file(str(tmp_path / "a")) == google_crc32c.value(b"aa")
    assert sum_file(str(tmp_path / "gone")) == google_crc32c.value(b"")


def _list(monkeypatch, work, refs):
    listing = Listing("images", FOLDER, IngestOptions(), None, Spool(make_chunks(refs), at_once=1))
    monkeypatch.setattr(run, "list_images", lambda *_: listing)
    return list(list_chunks("images", work, IngestOptions()))


def test_references_come_back_as_they_were(tmp_path, monkeypatch):
    annotations = Annotations("t.csv:2", "cat", None, "train", (1, 0.5, "x", ("a", "b"), None))
    refs = [
        ImageRef("odd\udcff/ü.png", 5, 1 << 62),
        ImageRef("a.png", 1, 0, "missing", "why", annotations, ImageRef("m.png", 3, 4)),
        ImageRef("b", 1, 0, location=Location("a.tar", "tar", 512, 100, "b.png")),
    ]
    work = WorkFolder(str(tmp_path))
    (chunk,) = _list(monkeypatch, work, refs)
    assert work.read_chunk(chunk) == Chunk(0, True, tuple(refs))
    assert (chunk.listed, chunk.images) == (3, 3)


def test_many_references_are_a_few_small_elements(tmp_path, monkeypatch):
    refs = [ImageRef(f"class-{n % 1000:03d}/image-{n:08d}.jpg", 10, n) for n in range(10_000)]
    work = WorkFolder(str(tmp_path))
    chunks = _list(monkeypatch, work, refs)
    assert [work.read_chunk(chunk) for chunk in chunks] == list(make_chunks(refs))
    assert [chunk.listed for chunk in chunks] == [4096, 4096, 1808]
    assert all(len(pickle.dumps(chunk)) < 300 for chunk in chunks)
    assert work.count_listed() == 10_000


def test_the_same_listing_leaves_the_same_files(tmp_path):
    images, work = write_folder(tmp_path / "images", per_class=5), WorkFolder(f"{tmp_path}/work")
    first, second = (list(list_chunks(str(images), work, IngestOptions())) for _ in range(2))
    assert first == second and len(list((tmp_path / "work" / "listed").iterdir())) == 1


def test_a_run_that_another_one_followed_lists_nothing(tmp_path, monkeypatch):
    first = WorkFolder(str(tmp_path)).begin()
    first.begin()
    with pytest.raises(UserError, match="Another run has begun"):
        _list(monkeypatch, first, [ImageRef("a", 1, 0)])
    assert not (tmp_path / "listed").exists()


def test_a_run_takes_the_listing_that_was_kept_for_it_and_no_other(tmp_path):
    images = write_folder(tmp_path / "images", per_class=5)
    work = WorkFolder(str(tmp_path / "work")).begin()
    kept = work.keep_listing(list_images(str(images), IngestOptions()))
    (images / "cat" / "000.png").unlink()
    assert list(list_chunks(str(images), work, IngestOptions())) == kept
    assert work.count_listed() == 10
    other = work.begin()
    assert other.count_listed() is None
    (of_another,) = list_chunks(str(images), other, IngestOptions())
    assert (kept[0].listed, of_another.listed, other.count_listed()) == (10, 9, 9)


@pytest.mark.whole
def test_a_run_takes_over_its_own_shards_and_no_other_plan_s(tmp_path, monkeypatch):
    """Raw images of one size make shards of one size, whatever images they hold."""
    images, out = write_folder(tmp_path / "images", per_class=20), tmp_path / "out"
    options = {"prepare": {"encoding": "raw"}}

    def stop(*_):
        raise UserError("stopped")

    for seed in (1, 2):
        with monkeypatch.context() as patched:
            patched.setattr(run, "write_manifest", stop)
            with pytest.raises(UserError, match="stopped"):
                ingest(images, out, seed=seed, **options)
    ingest(images, out, seed=1, **options)
    ingest(images, tmp_path / "fresh", seed=1, **options)
    assert read_files(out) == read_files(tmp_path / "fresh")
    assert verify_data_set(str(out)) == []


@pytest.mark.parametrize(
    "options",
    [{"leave_out": ["cat/bad.png"]}, {"labels": {"rename": {"cat": "kitten"}}}],
    ids=lambda options: next(iter(options)),
)
def test_a_run_takes_over_no_row_that_its_options_would_make_otherwise(tmp_path, options):
    """The file that is left out is the one that the first run ended for."""
    images, out = write_folder(tmp_path / "images", per_class=20), tmp_path / "out"
    (images / "cat" / "bad.png").write_bytes(b"no image")
    with pytest.raises(UserError, match="1 of 41 files are not usable"):
        ingest(images, out)
    ingest(images, out, max_bad_fraction=0.5, **options)
    ingest(images, tmp_path / "fresh", max_bad_fraction=0.5, **options)
    assert read_files(out) == read_files(tmp_path / "fresh")
