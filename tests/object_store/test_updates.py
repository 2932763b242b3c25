"""Unchanged images are taken from an earlier data set wherever they, it and the next one are."""

import pytest

from image_pipeline.components import files
from image_pipeline.components.ingest import prepare_chunk
from image_pipeline.components.ingest.earlier import count_taken, find_earlier
from tests.drawings import draw, encode_png
from tests.object_store.runs import ingest, read_tree

pytestmark = pytest.mark.beam


def _write(folder, names, seed):
    for number, name in enumerate(names):
        with files.write_atomically(f"{folder}/{name}") as file:
            file.write(encode_png(draw(seed + number)))


@pytest.mark.parametrize("places", ["store local local", "local store local", "store store store"])
def test_only_what_changed_is_read(store, tmp_path, monkeypatch, places):
    """`places` are those of the images, of the data set before, and of the next."""
    roots = {"local": str(tmp_path), "store": f"{store.uri}/updates/{places.replace(' ', '-')}"}
    images, before, after = (
        f"{roots[place]}/{name}"
        for place, name in zip(places.split(), ("images", "before", "after"), strict=True)
    )
    _write(images, [f"{label}/{number}.png" for label in "ab" for number in range(6)], 0)
    ingest(images, before)
    _write(images, ["a/3.png", "b/new.png"], 50)
    read, real = [], prepare_chunk.try_read
    with monkeypatch.context() as patched:
        patched.setattr(
            prepare_chunk, "try_read", lambda ref, *rest: read.append(ref.path) or real(ref, *rest)
        )
        ingest(images, after, find_earlier(before, "times"))
    assert (sorted(read), count_taken(after)) == (["a/3.png", "b/new.png"], 11)
    ingest(images, str(tmp_path / "fresh"))
    assert read_tree(after) == read_tree(str(tmp_path / "fresh"))
