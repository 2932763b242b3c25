import os
import pathlib

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import label_of, match_pattern
from image_pipeline.components.sources.folder import (
    LISTED_BEFORE,
    NOT_A_FILE,
    OUTSIDE,
    Folder,
    list_images,
)
from image_pipeline.components.sources.references import ImageRef, fingerprint_refs, make_chunks

pytestmark = pytest.mark.unit


def _touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * len(name))
    return str(folder)


def test_lists_files_in_order_of_names_with_their_sizes(tmp_path):
    root = _touch(tmp_path, "b/2.png", "a/10.png", "a/1.png", "top.png")
    refs = list(list_images(root))
    assert [ref.path for ref in refs] == ["a/1.png", "a/10.png", "b/2.png", "top.png"]
    assert [ref.size_bytes for ref in refs] == [7, 8, 7, 7]


def test_leaves_out_names_that_begin_with_a_dot(tmp_path):
    root = _touch(tmp_path, ".DS_Store", "a/.hidden", ".git/config", "a/seen.png")
    assert [ref.path for ref in list_images(root)] == ["a/seen.png"]


def test_a_folder_named_like_an_image_is_a_folder(tmp_path):
    root = _touch(tmp_path, "a/x.jpg/inner.png")
    assert [ref.path for ref in list_images(root)] == ["a/x.jpg/inner.png"]


def test_odd_names_come_through_unchanged(tmp_path):
    root = _touch(tmp_path, "a/with space.png", "a/new\nline.png")
    with open(os.path.join(os.fsencode(root), b"a/\xff.png"), "wb") as file:
        file.write(b"x")
    paths = [os.fsencode(ref.path) for ref in list_images(root)]
    assert sorted(paths) == [b"a/new\nline.png", b"a/with space.png", b"a/\xff.png"]


def _problems(root, **how):
    return {ref.path: ref.problem for ref in list_images(str(root), **how)}


def test_links_within_the_folder_are_followed_folders_once_and_broken_ones_are_listed(tmp_path):
    root = tmp_path / "images"
    _touch(root, "a/1.png", ".kept/2.png")
    for name, target in {
        "loop": ".",
        "self.png": "self.png",
        "broken.png": "nowhere",
        "b": ".kept",
        "c.png": "a/1.png",
        "d": "a",
    }.items():
        os.symlink(target, root / name)
    assert _problems(root) == {
        "a/1.png": None,
        "b/2.png": None,
        "broken.png": NOT_A_FILE,
        "c.png": None,
        "d": LISTED_BEFORE,
        "loop": LISTED_BEFORE,
        "self.png": NOT_A_FILE,
    }


def test_links_that_leave_the_folder_are_followed_only_if_asked(tmp_path):
    _touch(tmp_path / "elsewhere", "secret", "folder/2.png")
    _touch(tmp_path / "images", "a/1.png")
    os.symlink(tmp_path / "elsewhere" / "secret", tmp_path / "images" / "passwd.jpg")
    os.symlink("../elsewhere/folder", tmp_path / "images" / "b")
    expected = {"a/1.png": None, "b": OUTSIDE, "passwd.jpg": OUTSIDE}
    assert _problems(tmp_path / "images") == expected
    followed = _problems(tmp_path / "images", follow_links=True)
    assert followed == {"a/1.png": None, "b/2.png": None, "passwd.jpg": None}
    os.symlink("images", tmp_path / "link")  # The folder itself may be a link.
    assert _problems(tmp_path / "link") == expected


def test_a_link_to_a_class_folder_gives_its_images_no_other_class(tmp_path):
    _touch(tmp_path, "a/1.png", "b/2.png")
    os.symlink("../b", tmp_path / "a" / "related")
    assert _problems(tmp_path) == {"a/1.png": None, "a/related": LISTED_BEFORE, "b/2.png": None}


def test_a_pipe_is_listed_as_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    assert _problems(tmp_path) == {"pipe.png": NOT_A_FILE}


def test_a_missing_folder_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match=r"nowhere' does not exist; give one that exists"):
        list(list_images(str(tmp_path / "nowhere")))
    _touch(tmp_path, "file")
    with pytest.raises(UserError, match="is not a folder but a file; give a folder, such as"):
        list(list_images(str(tmp_path / "file")))


@pytest.mark.parametrize("name", ["x.tar.xz", "X.TBZ2"])
def test_an_archive_that_is_read_from_its_beginning_only_is_to_be_unpacked(tmp_path, name):
    _touch(tmp_path, name)
    with pytest.raises(
        UserError, match=rf"is an archive .* unpack it \(tar -xf .*{name}\) and ingest"
    ):
        list(list_images(str(tmp_path / name)))


def _refs(*sizes):
    return [ImageRef(f"{number}", size, 0) for number, size in enumerate(sizes)]


def test_chunks_close_at_their_number_of_references():
    chunks = list(make_chunks(_refs(1, 1, 1, 1, 1), max_refs=2))
    assert [[ref.path for ref in chunk.refs] for chunk in chunks] == [["0", "1"], ["2", "3"], ["4"]]
    assert [chunk.number for chunk in chunks] == [0, 1, 2]
    assert [chunk.is_last for chunk in chunks] == [False, False, True]


def test_chunks_close_at_their_number_of_bytes():
    chunks = list(make_chunks(_refs(60, 60, 10, 200, 5), max_bytes=100))
    assert [[ref.size_bytes for ref in chunk.refs] for chunk in chunks] == [
        [60, 60],
        [10, 200],
        [5],
    ]


def test_nothing_is_one_empty_last_chunk():
    (chunk,) = make_chunks([])
    assert chunk.is_last and not chunk.refs


@pytest.mark.parametrize(
    "change", [{"path": "b"}, {"size_bytes": 2}, {"modified_ns": 3}, {"problem": NOT_A_FILE}]
)
def test_fingerprint_sees_each_change(change):
    before = {"path": "a", "size_bytes": 1, "modified_ns": 1, "problem": None}
    assert fingerprint_refs([ImageRef(**before)]) != fingerprint_refs([ImageRef(**before | change)])


def test_fingerprint_is_the_same_for_the_same_folder(tmp_path):
    root = _touch(tmp_path, "a/1.png", "a/2.png")
    assert fingerprint_refs(list_images(root)) == fingerprint_refs(list_images(root))


def test_labels_come_from_the_first_folder_by_default():
    assert label_of(ImageRef("cat/deep/1.png", 1, 0), IngestOptions()) == "cat"
    assert label_of(ImageRef("1.png", 1, 0), IngestOptions()) is None


def test_labels_come_from_any_pattern_or_none():
    by_name = IngestOptions(label_pattern=r"n\d+_(?P<label>.+)\.JPEG")
    assert label_of(ImageRef("n0123_great_white.JPEG", 1, 0), by_name) == "great_white"
    assert label_of(ImageRef("1.png", 1, 0), IngestOptions(label_pattern=None)) == ""


def test_a_pattern_matches_from_the_start():
    assert match_pattern(r"(?P<split>train|test)/", "split", "train/cat/1.png") == "train"
    assert match_pattern(r"(?P<split>train|test)/", "split", "x/train/1.png") is None
    assert match_pattern(None, "split", "train/cat/1.png") is None


def test_folders_may_be_nested_deeper_than_pythons_calls(tmp_path):
    depth, folder = 1_500, str(tmp_path)
    folders = [folder := f"{folder}/a" for _ in range(depth)]
    for each in folders:
        os.mkdir(each)
    pathlib.Path(folder, "x.jpg").write_bytes(b"x")
    try:
        assert [ref.path for ref in list_images(str(tmp_path))] == ["a/" * depth + "x.jpg"]
    finally:  # `shutil.rmtree` calls itself, too.
        os.unlink(f"{folder}/x.jpg")
        for each in reversed(folders):
            os.rmdir(each)


@pytest.mark.parametrize("path", ["a/1.png", "link.png", "folder/1.png", "a/../../out/1.png"])
def test_a_file_is_read_only_if_its_path_stays_inside(tmp_path, path):
    """A path without a link or a way up is not resolved; all others are."""
    root, out = tmp_path / "images", tmp_path / "out"
    for folder in (root / "a", out):
        folder.mkdir(parents=True)
        (folder / "1.png").write_bytes(folder.name.encode())
    (root / "link.png").symlink_to(out / "1.png")
    (root / "folder").symlink_to(out)
    reference = ImageRef(path, 1, 0)
    assert Folder(str(root), True).read(reference, 9) == (b"a" if path == "a/1.png" else b"out")
    if path == "a/1.png":
        assert Folder(str(root)).read(reference, 9) == b"a"
    else:
        with pytest.raises(BadImage, match="leaves the images folder"):
            Folder(str(root)).read(reference, 9)
