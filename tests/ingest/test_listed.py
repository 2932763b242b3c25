"""What is listed is read again as it was, and nothing but names is held."""

import pickle

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import listed
from image_pipeline.components.ingest.fence import begin_run
from image_pipeline.components.ingest.listed import count_path, list_chunks, read_chunk
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.sources.held import Place
from image_pipeline.components.sources.references import Chunk, ImageRef, Said, make_chunks
from tests.drawings import write_folder

pytestmark = pytest.mark.unit


class _Fake:
    """A source of references alone."""

    def __init__(self, refs):
        self.list = lambda: iter(refs)


def _list(monkeypatch, work, refs, run=""):
    monkeypatch.setattr(listed, "open_source", lambda *_: _Fake(refs))
    return list(list_chunks("images", str(work), IngestOptions(), run))


def test_references_come_back_as_they_were(tmp_path, monkeypatch):
    said = Said("t.csv:2", "cat", None, "train", (1, 0.5, "x", ("a", "b"), None))
    refs = [
        ImageRef("odd\udcff/ü.png", 5, 1 << 62),
        ImageRef("a.png", 1, 0, "missing", "why", said, ImageRef("m.png", 3, 4)),
        ImageRef("b", 1, 0, place=Place("a.tar", "tar", 512, 100, "b.png")),
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
    assert (tmp_path / "listed.json").read_text() == "10000"


def test_the_next_chunk_is_listed_when_it_is_asked_for(tmp_path, monkeypatch):
    seen = []

    def refs():
        for n in range(3 * 4096):
            seen.append(n)
            yield ImageRef(f"{n}", 1, 0)

    monkeypatch.setattr(listed, "open_source", lambda *_: _Fake(refs()))
    chunks = list_chunks("images", str(tmp_path), IngestOptions())
    next(chunks)
    assert len(seen) == 4097


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
    assert count_path(str(tmp_path)) == f"{tmp_path}/listed.json"
