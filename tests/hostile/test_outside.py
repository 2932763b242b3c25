"""Nothing outside the source is read, whatever a row, a link or a list in a data set names."""

import dataclasses
import json
import os
import shutil

import pytest

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.open_source import no_usable_row, open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources import folder
from image_pipeline.components.sources.folder import Folder, leads_out
from image_pipeline.components.sources.frames import Frames
from image_pipeline.components.sources.options import VideoOptions
from image_pipeline.components.sources.reading import try_read
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.source_kinds import list_tables
from image_pipeline.components.sources.video import read_video_header
from tests.drawings import draw, encode_png
from tests.ingest_runs import ingest, read_lines
from tests.videos import encode

SECRET = b"TOP-SECRET-KEY"


@pytest.fixture
def photos(tmp_path):
    """A folder of images with ways out of it, beside one with a secret."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.png").write_bytes(SECRET)
    root = tmp_path / "photos"
    for number in range(4):
        path = root / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_png(draw(number)))
    (root / "link.png").symlink_to(tmp_path / "outside" / "secret.png")
    (root / "way").symlink_to(tmp_path / "outside")
    (root / "self").symlink_to("/proc/self")
    (root / "inside.png").symlink_to("a/0.png")
    (root / "c").symlink_to("b")
    os.mkfifo(root / "pipe.png")
    return root


def _list(table, **options):
    options = complete_options(str(table), IngestOptions(**options))
    source = open_source(str(table), options)
    return source, list(source.list())


def _problem(table, path, **options):
    table.write_text(f"path,label\n{path},x\n")
    (ref,) = _list(table, **options)[1]
    return ref.problem


WAYS_OUT = (
    *("../outside/secret.png", "{tmp}/outside/secret.png", "a/../../outside/secret.png"),
    *("link.png", "way/secret.png", "way/gone.png", "c/../../outside/secret.png"),
    *("self/environ", "/dev/zero", "/etc/passwd", "file:///etc/passwd", "http://localhost:9/x.png"),
    *("gs://bucket/x.png", "~//../../outside/secret.png"),
)


@pytest.mark.unit
@pytest.mark.parametrize("path", WAYS_OUT)
def test_a_row_that_leads_out_is_refused_and_never_opened(photos, tmp_path, path, monkeypatch):
    table = photos / "t.csv"
    table.write_text(f"path,label,mask\na/0.png,x,{path}\n{path},y,b/1.png\n".format(tmp=tmp_path))
    source, refs = _list(table)
    assert [ref.problem for ref in refs] == [None, "outside"]
    assert refs[0].mask.problem == "outside"
    assert "t.csv:3: " in refs[1].message and "ingest.follow_links=true" in refs[1].message
    monkeypatch.setattr(os, "open", None)
    again = dataclasses.replace(refs[1], problem=None)  # As if it had been listed before.
    assert try_read(again, source, 10**6).reason == "outside"


@pytest.mark.unit
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("inside.png", None),
        ("c/1.png", None),
        ("a/../b/1.png", None),
        ("{photos}/a/0.png", None),
        ("pipe.png", "not_a_file"),
        ("a", "not_a_file"),
        ("c", "not_a_file"),
        ("gone.png", "missing_file"),
        ("/".join(["n" * 200] * 19), "missing_file"),
        ("n" * 300, "missing_file"),
        ("nul\0.png", "missing_file"),
        ('"two\nlines.png"', "missing_file"),
    ],
)
def test_what_stays_inside_is_what_it_was(photos, path, problem):
    assert _problem(photos / "t.csv", path.format(photos=photos)) == problem


@pytest.mark.unit
@pytest.mark.parametrize("path", ["link.png", "way/secret.png", "../outside/secret.png"])
def test_who_wants_it_may_follow_all(photos, path):
    assert _problem(photos / "t.csv", path, follow_links=True) is None


@pytest.mark.unit
def test_absolute_paths_are_read_below_the_root(photos, tmp_path):
    table = tmp_path / "lists" / "t.csv"
    table.parent.mkdir()
    shutil.copytree(photos / "a", f"{photos}-2/a")  # Else they were another machine's.
    for path, problem in ((f"{photos}/a/0.png", None), (f"{photos}-2/a/0.png", "outside")):
        assert _problem(table, path, root_dir=str(photos)) == problem
        assert _problem(table, path) == "outside"
    alias = tmp_path / "alias"
    alias.symlink_to(photos)
    assert _problem(table, f"{photos}/a/0.png", root_dir=str(alias)) is None


@pytest.mark.unit
@pytest.mark.parametrize(
    ("root", "path", "is_out"),
    [
        ("gs://b/x", "1.png", False),
        ("gs://b/x", "gs://b/x/1.png", False),
        ("gs://b/x/", "gs://b/x/1.png", False),
        ("gs://b/x", "gs://b/xy/1.png", True),
        ("gs://b/x", "gs://c/x/1.png", True),
        ("gs://b/x", "../y/1.png", True),
        ("gs://b/x", "gs://b/x/../y/1.png", True),
        ("gs://b/x", "/etc/passwd", True),
        ("s3://b", "gs://b/1.png", True),
    ],
)
def test_a_store_has_bounds_as_a_folder_has(root, path, is_out):
    assert leads_out(root, path) is is_out


@pytest.mark.unit
@pytest.mark.parametrize(
    ("paths", "root"),
    [
        (["/usr/bin/1.png", "/usr/lib/2.png"], "ingest.root_dir=/usr,"),
        (["/usr/lib/1.png", "/usr/lib64/2.png"], "ingest.root_dir=/usr,"),
        (["/no such/a/1.png", "/no such/b/2.png"], "'ingest.path_prefix=/no such/' takes"),
        (["/data/1.png", "/etc/passwd"], "ingest.root_dir=/,"),
        (["gs://b/x/1.png", "gs://b/y/2.png"], "ingest.root_dir=gs://b,"),
        (["gs://b/x/1.png", "gs://c/y/2.png"], "x."),
        (["../a/1.png", "../a/2.png"], "x."),
        (["../a/1.png", "/a/2.png"], "x."),
    ],
)
def test_a_table_of_paths_elsewhere_is_told_the_option_with_its_value(paths, root):
    said = str(no_usable_row("t.csv", 2, "x", paths))
    assert said.endswith("used; x.") if root == "x." else root in said


@pytest.mark.unit
@pytest.mark.parametrize(
    ("path", "way_out"),
    [
        ("../outside/secret.png", "set ingest.follow_links=true"),
        ("link.png", "set ingest.follow_links=true"),
        ("{tmp}/outside/secret.png", "set ingest.root_dir to the folder of all images, or "),
    ],
)
def test_a_row_names_the_option_that_lets_it_out(photos, tmp_path, path, way_out):
    (photos / "t.csv").write_text(f"path,label\n{path.format(tmp=tmp_path)},x\n")
    _, (ref,) = _list(photos / "t.csv")
    assert f"if it may, {way_out}" in ref.message


@pytest.mark.unit
def test_a_folder_that_becomes_a_link_after_its_listing_is_not_followed(photos, tmp_path):
    for table in (photos, photos / "t.txt"):
        (photos / "t.txt").write_text("a/0.png x\n")
        source, refs = _list(table)
        (ref,) = [ref for ref in refs if ref.path == "a/0.png"]
        assert isinstance(try_read(ref, source, 10**6), bytes)
        (photos / "a").rename(tmp_path / "a")
        (photos / "a").symlink_to(tmp_path / "a")
        assert try_read(ref, source, 10**6).reason == "outside"
        (photos / "a").unlink()
        (tmp_path / "a").rename(photos / "a")


@pytest.mark.unit
def test_what_was_opened_is_looked_at_once_more(photos, tmp_path, monkeypatch):
    """As if a link were put there between the look at the path and its opening."""
    monkeypatch.setattr(folder, "leads_out", lambda *_: False)
    with pytest.raises(BadImage, match="leaves the images folder"):
        Folder(str(photos)).read(ImageRef("way/secret.png", 1, 0), 9)
    assert Folder(str(photos), follow_links=True).read(ImageRef("link.png", 1, 0), 3) == b"TOP"


@pytest.mark.unit
def test_a_root_that_leads_elsewhere_now_is_still_the_root(photos, tmp_path):
    root = tmp_path / "latest"
    for target in (photos / "a", photos / "b"):
        root.unlink(missing_ok=True)
        root.symlink_to(target)
        name = min(os.listdir(target))
        data = files.read_regular_file(f"{root}/{name}", 10**6, str(root))
        assert data == (target / name).read_bytes()


@pytest.mark.beam
def test_no_bytes_of_others_reach_a_data_set_or_its_quarantine(photos, tmp_path):
    table = photos / "t.csv"
    ways = [path.format(tmp=tmp_path) for path in WAYS_OUT]
    rows = [f"a/{n}.png,a" for n in (0, 2)] + [f"b/{n}.png,b" for n in (1, 3)]
    table.write_text("\n".join(["path,label", *rows, *(f"{path},a" for path in ways)]))
    ingest(table, tmp_path / "out", max_bad_fraction=1, splits={"train": 1})
    lines = read_lines(tmp_path / "out" / "quarantine.jsonl")
    assert [line["path"] for line in lines if line["reason"] == "outside"] == ways
    assert {line["sha256"] for line in lines} == {None}
    assert not (tmp_path / "out" / "quarantine").exists()


@pytest.mark.unit
def test_a_video_is_no_list_of_other_files(photos, tmp_path):
    """FFmpeg tells what a file is by its content, and opens what a list names."""
    (tmp_path / "outside" / "v.mkv").write_bytes(encode(3))
    (photos / "v.mkv").symlink_to(tmp_path / "outside" / "v.mkv")
    (photos / "list.mp4").write_text("ffconcat version 1.0\nfile v.mkv\n")
    with pytest.raises(BadImage, match="cannot be read"):
        read_video_header(str(photos / "list.mp4"))
    assert read_video_header(str(photos / "v.mkv")).height == 16
    videos = Frames(Folder(str(photos)), VideoOptions())
    with pytest.raises(BadImage, match="leaves the images folder"):
        videos.open_file(ImageRef("v.mkv", 1, 0))


@pytest.mark.unit
@pytest.mark.parametrize("name", ["../outside/data.arrow", "way/data.arrow"])
def test_a_saved_data_set_names_no_file_of_others(photos, name):
    (photos / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    with pytest.raises(UserError, match="leads out of it"):
        list_tables(str(photos))
    (photos / "state.json").unlink()
    (photos / "dataset_dict.json").write_text(json.dumps({"splits": ["../outside"]}))
    with pytest.raises(UserError, match="leads out of it"):
        list_tables(str(photos))


@pytest.mark.unit
def test_an_address_that_no_store_has_costs_its_row(photos):
    (photos / "t.txt").write_text("a/0.png x\nhttp://localhost:9/1.png x\n")
    source, refs = _list(photos / "t.txt", follow_links=True)
    assert isinstance(try_read(refs[0], source, 10**6), bytes)
    found = try_read(refs[1], source, 10**6)
    assert found.reason == "unreadable" and "no store has such addresses" in found.message
