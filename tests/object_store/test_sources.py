"""Folders of records behind URIs: told from data sets, and read with their splits."""

import pytest

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import read_whole_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.open_source import open_complete
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources import frames
from image_pipeline.components.stores import remote
from tests.data_set_files import write_tfrecord
from tests.drawings import draw, encode_png
from tests.object_store.runs import ingest, read_tree
from tests.videos import encode

pytestmark = pytest.mark.beam

IMAGES = [encode_png(draw(number)) for number in range(5)]


@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_a_folder_of_splits_is_as_a_local_one(store, tmp_path, scheme):
    for split, numbers in (("train", range(3)), ("eval", range(3, 5))):
        path = tmp_path / "data_tfrecord-00000-of-00001.gz"
        write_tfrecord(path, [{"image": IMAGES[n], "label": n} for n in numbers])
        with files.write_atomically(f"{store.uri}/examples/Split-{split}/{path.name}") as file:
            file.write(path.read_bytes())
    folder = f"{scheme}://bucket/examples"
    with pytest.raises(UserError, match=f"in Split-eval, Split-train, .* tfrecord:{folder} --out"):
        read_whole_manifest(folder)
    source, _ = open_complete(f"tfrecord:{folder}", IngestOptions())
    refs = list(source.list())
    assert [ref.annotations.split for ref in refs] == ["eval"] * 2 + ["train"] * 3
    assert [source.read(ref, 10**6) for ref in refs] == [*IMAGES[3:], *IMAGES[:3]]


# Videos are read where they are: their frames are those of the local files.
OPTIONS = {"video": {"frames_per_second": 2.0}, "duplicates": "keep_all"}


@pytest.fixture
def videos(store, tmp_path):
    """The same videos in a local folder and in the store; the index of some is at their end."""
    for number in range(8):
        size, kind = (16 + 2 * number, 32), ("matroska", "mov")[number // 2 % 2]
        codec = "ffv1" if kind == "matroska" else "mpeg4"
        name = f"{number}.mkv" if kind == "matroska" else f"{number}.mov"
        path = tmp_path / "videos" / ("cat", "dog")[number % 2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(40, 10, kind, codec, size=size))
        with files.write_atomically(f"{store.uri}/videos/{path.parent.name}/{path.name}") as file:
            file.write(path.read_bytes())
    frames._open.clear()
    return tmp_path / "videos"


@pytest.mark.parametrize("held_bytes", [2**23, 1000])
@pytest.mark.parametrize("scheme", ["gs", "s3"])
def test_frames_are_those_of_local_files(videos, tmp_path, monkeypatch, scheme, held_bytes):
    ingest(str(videos), str(tmp_path / "local"), **OPTIONS)
    monkeypatch.setattr(remote, "_HELD_BYTES", held_bytes)  # Larger ones are read in such parts.
    manifest = ingest(f"{scheme}://bucket/videos", str(tmp_path / "data"), **OPTIONS)
    assert manifest.books.written == 8 * 8
    assert read_tree(str(tmp_path / "data")) == read_tree(str(tmp_path / "local"))
