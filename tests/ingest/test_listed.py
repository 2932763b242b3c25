"""What is listed is read again as it was, and nothing but names is held."""

import pickle

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import listed
from image_pipeline.components.ingest.counts import start_counts
from image_pipeline.components.ingest.fence import begin_run
from image_pipeline.components.ingest.listed import (
    count_listed,
    keep_listing,
    list_chunks,
    read_chunk,
)
from image_pipeline.components.meaning.listing import Listing, list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import FOLDER
from image_pipeline.components.sources.references import Annotations, Chunk, ImageRef, make_chunks
from image_pipeline.components.sources.rows import Location
from image_pipeline.components.spool import Spool
from tests.drawings import write_folder

pytestmark = pytest.mark.unit


def _list(monkeypatch, work, refs, run=""):
    listing = Listing("images", FOLDER, IngestOptions(), None, Spool(make_chunks(refs), at_once=1))
    monkeypatch.setattr(listed, "list_images", lambda *_: listing)
    return list(list_chunks("images", str(work), IngestOptions(), run))


def test_references_come_back_as_they_were(tmp_path, monkeypatch):
    said = Annotations("t.csv:2", "cat", None, "train", (1, 0.5, "x", ("a", "b"), None))
    refs = [
        ImageRef("odd\udcff/ü.png", 5, 1 << 62),
        ImageRef("a.png", 1, 0, "missing", "why", said, ImageRef("m.png", 3, 4)),
        ImageRef("b", 1, 0, location=Location("a.tar", "tar", 512, 100, "b.png")),
    ]
    (chunk,) = _list(monkeypatch, tmp_path, refs)
    assert read_chunk(chunk, str(tmp_path)) == Chunk(0, True, tuple(refs))
    assert (chunk.listed, chunk.images) == (3, 3)


def test_many_references_are_a_few_small_elements(tmp_path, monkeypatch):
    refs = [ImageRef(f"class-{n % 1000:03d}/image-{n:08d}.jpg", 10, n) for n in range(10_000)]
    chunks = _list(monkeypatch, tmp_path, refs)
    again = [read_chunk(chunk, str(tmp_path)) for chunk in chunks]
    assert again == list(make_chunks(refs))
    assert [chunk.listed for chunk in chunks] == [4096, 4096, 1808]
    assert all(len(pickle.dumps(chunk)) < 300 for chunk in chunks)
    assert count_listed(str(tmp_path)) == 10_000


def test_the_same_listing_leaves_the_same_files(tmp_path):
    images = write_folder(tmp_path / "images", per_class=5)
    first, second = (
        list(list_chunks(str(images), str(tmp_path / "work"), IngestOptions())) for _ in range(2)
    )
    assert first == second and len(list((tmp_path / "work" / "listed").iterdir())) == 1


def test_a_run_that_another_one_followed_lists_nothing(tmp_path, monkeypatch):
    first = begin_run(str(tmp_path))
    begin_run(str(tmp_path))
    with pytest.raises(UserError, match="Another run has begun"):
        _list(monkeypatch, tmp_path, [ImageRef("a", 1, 0)], first)
    assert not (tmp_path / "listed").exists()


def test_a_run_takes_the_listing_that_was_kept_for_it_and_no_other(tmp_path):
    images, work = write_folder(tmp_path / "images", per_class=5), str(tmp_path / "work")
    run = begin_run(work)
    kept = keep_listing(list_images(str(images), IngestOptions()), work, run)
    (images / "cat" / "000.png").unlink()
    assert list(list_chunks(str(images), work, IngestOptions(), run)) == kept
    (of_another,) = list_chunks(str(images), work, IngestOptions(), begin_run(work))
    assert (kept[0].listed, of_another.listed) == (10, 9)
    assert count_listed(work) == 9
    start_counts(work)
    assert count_listed(work) is None
