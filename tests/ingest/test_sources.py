"""The same images from a folder, an archive or a source of one's own: the same data set."""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

from image_pipeline.components.ingest.prepare_chunk import prepare_chunk
from image_pipeline.components.ingest.prepared import read_chunk_rows
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.references import Chunk, ImageRef
from tests.drawings import write_folder, write_scenes
from tests.ingest_runs import ingest, read_lines, update

pytestmark = pytest.mark.beam

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "sources.md"
MASKS = {"masks": {"images": "images/{key}.png", "masks": "masks/{key}.png"}}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Two classes; a duplicate, a text and a broken image are among them."""
    folder = write_folder(tmp_path_factory.mktemp("source") / "images", per_class=12)
    shutil.copy(folder / "cat" / "003.png", folder / "cat" / "copy.png")
    (folder / "cat" / "notes.txt").write_text("some words")
    (folder / "dog" / "bad.png").write_bytes((folder / "dog" / "000.png").read_bytes()[:60])
    return folder


@pytest.fixture(scope="module")
def expected(images, tmp_path_factory):
    output = tmp_path_factory.mktemp("folder")
    ingest(images, output, max_bad_fraction=0.5)
    return contents(output)


def contents(output):
    """All files of a data set by their names, but for the note of where it came from."""
    paths = [path for path in sorted(output.rglob("*")) if path.is_file()]
    return {str(p.relative_to(output)): p.read_bytes() for p in paths if p.name[0] != "."}


def write_archive(kind, folder, path):
    """Members in an order that no folder is listed in."""
    if kind == "zip":
        return shutil.make_archive(str(path.with_suffix("")), "zip", folder)
    names = sorted((p for p in folder.rglob("*") if p.is_file()), reverse=True)
    with tarfile.open(path, "w") as archive:
        for name in names:
            archive.add(name, f"./{name.relative_to(folder)}")
    if kind == "tar.gz":
        path.write_bytes(gzip.compress(path.read_bytes()))
    return path


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_an_archive_gives_the_bytes_of_its_folder(images, expected, tmp_path, kind):
    archive = write_archive(kind, images, tmp_path / f"a.{kind}")
    manifest = ingest(archive, tmp_path / "out", max_bad_fraction=0.5)
    books = manifest.books
    assert (books.written, books.duplicates, books.quarantined, books.skipped) == (24, 1, 1, 1)
    assert contents(tmp_path / "out") == expected


def test_several_archives_are_one_folder(images, expected, tmp_path):
    for name in ("cat", "dog"):
        shutil.copytree(images / name, tmp_path / "parts" / name / name)
        write_archive("tar", tmp_path / "parts" / name, tmp_path / f"part-{name}.tar")
    ingest(tmp_path / "part-*.tar", tmp_path / "out", max_bad_fraction=0.5)
    assert contents(tmp_path / "out") == expected


def test_masks_are_found_in_an_archive(tmp_path):
    write_scenes(tmp_path / "scenes", 12)
    archive = write_archive("zip", tmp_path / "scenes", tmp_path / "scenes.zip")
    for images, output in ((tmp_path / "scenes", "a"), (archive, "b")):
        assert ingest(images, tmp_path / output, **MASKS).books.written == 12
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_damage_of_an_archive_is_in_the_books(images, tmp_path):
    whole = write_archive("tar", images, tmp_path / "whole.tar").read_bytes()
    archive = tmp_path / "a.tar"
    archive.write_bytes(whole[: len(whole) // 2])
    written = ingest(archive, tmp_path / "out", max_bad_fraction=0.5).books.written
    assert 0 < written < 24
    named = [line["path"] for line in read_lines(tmp_path / "out" / "quarantine.jsonl")]
    assert any(re.fullmatch(r"a\.tar#byte-\d+", name) for name in named)
    archive.write_bytes(whole)
    taken = update(archive, tmp_path / "out", tmp_path / "more", max_bad_fraction=0.5)
    assert taken == written + 1  # The copy of one was in the half that was missing.


def test_a_repaired_member_is_added(images, expected, tmp_path):
    shutil.copytree(images, tmp_path / "images")
    (tmp_path / "images" / "cat" / "003.png").write_bytes(b"\x89PNG no more")
    archive = write_archive("zip", tmp_path / "images", tmp_path / "a.zip")
    ingest(archive, tmp_path / "out", max_bad_fraction=0.5)
    write_archive("zip", images, tmp_path / "a.zip")
    taken = update(archive, tmp_path / "out", tmp_path / "mended", max_bad_fraction=0.5)
    assert taken == 25  # Its copy was stored.
    assert contents(tmp_path / "mended") == expected


def _documented_module():
    (code,) = re.findall(r"cat > my_photos.py <<'END'\n(.*?)END\n", DOCS.read_text(), re.DOTALL)
    (fill,) = re.findall(r"cat > fill.py <<'END'\n(.*?)END\n", DOCS.read_text(), re.DOTALL)
    return code, fill


def test_the_documented_source_in_a_package_of_somebody_else(tmp_path):
    """It has at most 30 lines, and gives a folder's bytes, from wherever its owner works."""
    write_folder(tmp_path / "pngs")
    for path in (tmp_path / "pngs").rglob("*.png"):  # Its own `pipeline/` is in the way of nothing.
        os.makedirs(tmp_path / "photos" / path.parent.name, exist_ok=True)
        shutil.copy(path, tmp_path / "photos" / path.parent.name / f"{path.stem}.jpg")
    code, fill = _documented_module()
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "__init__.py").write_text("raise ImportError('not this one')")
    (tmp_path / "my_photos").mkdir()
    (tmp_path / "my_photos" / "__init__.py").write_text(code)
    subprocess.run([sys.executable, "-c", fill], cwd=tmp_path, check=True)
    like_a_folder = ("--set", "ingest.columns={label: kind, boxes: null}")
    ways = {"a": ["photos"], "b": ["rows:my_photos:open_rows:photos.db", *like_a_folder]}
    made = []
    for name, images in ways.items():
        command = ["ingest", "--output", name, "--quiet", "--images", *images]
        run = subprocess.run(
            [str(pathlib.Path(sys.executable).with_name("image-pipeline")), *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        made.append(contents(tmp_path / name))
        del made[-1]["manifest.json"]  # It has the options.
    assert made[0] == made[1] and "index.parquet" in made[0]


def test_prepared_images_of_another_source_are_not_taken(tmp_path, monkeypatch):
    """An interrupted run left them, and its references say the same: no size or time differs."""
    (tmp_path / "noises.py").write_text(
        "import numpy as np\n"
        "class Noise:\n"
        "    def __init__(self, text):\n"
        "        self.pixels = np.full((4, 4), int(text), np.uint8)\n"
        "    def read(self, ref, most_bytes):\n"
        "        return self.pixels\n"
        "    list = None.__eq__\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    chunk = Chunk(0, True, (ImageRef("a/1.npy", 1, 0),))
    options = IngestOptions()
    work = WorkFolder(str(tmp_path / "work"))
    prepared = [prepare_chunk(chunk, f"source:noises:Noise:{text}", work, options) for text in "12"]
    contents = [read_chunk_rows(each, work)["sha256"][0].as_py() for each in prepared]
    assert contents[0] != contents[1]
