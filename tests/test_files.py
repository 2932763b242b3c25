import errno
import os

import pytest

from image_pipeline.components import files, trees
from image_pipeline.components.errors import UserError
from image_pipeline.components.stores import remote
from tests.noting_store import NotingStore

pytestmark = pytest.mark.unit


def test_join_has_one_slash():
    assert files.join("gs://bucket/a/", "b", "c") == "gs://bucket/a/b/c"


def test_only_uris_are_remote():
    assert files.is_local("/a/b") and files.is_local("a") and not files.is_local("gs://a")


def test_a_file_appears_only_when_it_is_complete(tmp_path):
    path = tmp_path / "new" / "file"
    with files.write_atomically(str(path)) as file:
        file.write(b"data")
        assert not path.exists()
    assert path.read_bytes() == b"data"
    assert [each.name for each in path.parent.iterdir()] == ["file"]


def test_what_a_killed_writer_left_is_deleted(tmp_path):
    path, other = tmp_path / "[a].bin", tmp_path / "[a].bin2"
    left = files.write_atomically(str(path))
    left.__enter__().write(b"half")
    files.write_file(str(other), b"whole")
    assert len(list(tmp_path.iterdir())) == 2
    files.delete_unfinished(str(path), str(other), str(tmp_path / "none"), "gs://bucket/name")
    assert list(tmp_path.iterdir()) == [other]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(KeyError), files.write_atomically(str(path)) as file:
        file.write(b"new")
        raise KeyError
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_large_file_is_sent_while_it_is_written_and_whole_in_the_end(tmp_path, monkeypatch):
    sent = []

    def send(descriptor, real=os.fsync):
        sent.append(os.fstat(descriptor).st_size)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", send)
    block, path = os.urandom(2**20), tmp_path / "file"
    with files.write_atomically(str(path)) as file:
        for _ in range(40):
            file.write(block)
        assert sent
    assert path.read_bytes() == 40 * block
    assert sent[-1] == 40 * len(block)


@pytest.mark.parametrize("blocks", [16, 40])
def test_what_the_disk_refused_in_the_meantime_fails_the_write(tmp_path, monkeypatch, blocks):
    failures = [OSError(errno.ENOSPC, "x")]
    monkeypatch.setattr(os, "fsync", lambda _: failures and (_ for _ in ()).throw(failures.pop()))
    with (
        pytest.raises(UserError, match=os.strerror(errno.ENOSPC)),
        files.write_atomically(str(tmp_path / "file")) as file,
    ):
        for _ in range(blocks):
            file.write(bytes(2**20))
    assert not list(tmp_path.iterdir()) and not failures


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_place_that_cannot_be_written_is_the_users_error(tmp_path, code):
    with (
        pytest.raises(UserError, match=rf"Cannot write .*file: {os.strerror(code)}; fix that"),
        files.write_atomically(str(tmp_path / "file")),
    ):
        raise OSError(code, "x")


def test_other_os_errors_pass_through(tmp_path):
    with pytest.raises(FileNotFoundError), files.write_atomically(str(tmp_path / "file")):
        raise FileNotFoundError(errno.ENOENT, "x")


def test_list_files_takes_brackets_in_the_folder_literally(tmp_path):
    folder = tmp_path / "[odd]"
    for name in ("b.txt", "a.txt", "a.png"):
        with files.write_atomically(f"{folder}/{name}"):
            pass
    assert files.list_files(str(folder), "*.txt") == [f"{folder}/a.txt", f"{folder}/b.txt"]


def test_deleting_what_is_not_there_is_fine(tmp_path):
    files.delete(str(tmp_path / "no"))
    files.delete_tree(str(tmp_path / "no"))


def test_a_whole_file_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"data")
    assert files.read_file(str(tmp_path / "file")) == b"data"
    with pytest.raises(FileNotFoundError):
        files.read_file(str(tmp_path / "no"))


@pytest.mark.beam
def test_uris_go_through_beam():
    from apache_beam.io.filesystems import FileSystems

    assert FileSystems.get_scheme("gs://bucket/a") == "gs"
    with pytest.raises(UserError, match=r"nosuchscheme://bucket/a.*Unable to get filesystem"):
        files.exists("nosuchscheme://bucket/a")


@pytest.mark.parametrize("name", [None, "target"])
def test_a_disk_that_fails_is_named_by_what_was_written(tmp_path, name):
    target = str(tmp_path / "target")
    file_name = None if name is None else target
    with (
        pytest.raises(UserError, match=r"Cannot write .*target: Input/output error"),
        files.write_atomically(target),
    ):
        raise OSError(errno.EIO, os.strerror(errno.EIO), file_name)


def test_what_is_read_while_a_file_is_written_is_not_blamed_on_it(tmp_path):
    with pytest.raises(OSError, match="other") as raised, files.write_atomically(f"{tmp_path}/a"):
        raise OSError(errno.EIO, os.strerror(errno.EIO), "other")
    assert not isinstance(raised.value, UserError)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(IsADirectoryError) as raised:
        files.read_file(str(tmp_path))
    assert raised.value.filename == str(tmp_path)


URI = "s3://models/7"


@pytest.fixture
def store(monkeypatch):
    made = NotingStore(URI)
    monkeypatch.setattr(remote, "_find_store", lambda uri: made)
    monkeypatch.setattr(trees, "_THREADS", 1)
    return made


def _fill(folder, *names):
    for name in names:
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        with open(f"{folder}/{name}", "w") as file:
            file.write(name)


@pytest.mark.parametrize("folder", ["models/7", "/models/7", "gs://models/7"])
def test_what_tensorflow_knows_is_used_in_place(store, folder):
    assert trees.fetch_tree(folder) == folder
    with trees.write_tree(folder, last="a") as written:
        assert written == folder
    assert store.done == []


def test_a_folder_is_whole_when_it_can_be_found(store):
    with trees.write_tree(URI, last="saved_model.pb") as local:
        _fill(local, "variables/a", "saved_model.pb", "zz")
    assert store.done == [("put", "variables/a"), ("put", "zz"), ("put", "saved_model.pb")]
    assert store.held[f"{URI}/variables/a"] == b"variables/a"
    assert not os.path.exists(local)


def test_a_folder_is_replaced_so_that_it_is_never_half_of_each(store):
    store.held = {f"{URI}/{name}": b"old" for name in ("last", "kept", "gone")}
    with trees.write_tree(URI, last="last") as local:
        _fill(local, "last", "kept")
    assert store.done == [("delete", "last"), ("put", "kept"), ("delete", "gone"), ("put", "last")]
    assert store.held == {f"{URI}/last": b"last", f"{URI}/kept": b"kept"}


def test_a_folder_is_copied_without_what_is_hidden_and_what_only_stands_for_folders(
    store, tmp_path
):
    store.held = {f"{URI}/{name}": b"1" for name in ("", "a", "b/", "b/c", ".hidden/d")}
    trees.copy_tree(URI, str(tmp_path / "copy"))
    assert trees.list_names(str(tmp_path / "copy")) == ["a", "b/c"]
    assert trees.list_names(str(tmp_path / "none")) == []


def test_nothing_is_sent_after_an_error(store):
    with pytest.raises(UserError), trees.write_tree(URI, last="last") as local:
        _fill(local, "last")
        raise UserError("not today")
    assert store.done == []


def test_what_is_not_there_is_named(store):
    with pytest.raises(UserError, match=f"^{URI} must hold .* but is empty; check"):
        trees.fetch_tree(URI)


def test_a_copy_is_made_once_until_something_changes(store):
    store.held = {f"{URI}/a": b"first", f"{URI}/b/c": b"second", f"{URI}/.hidden": b"large"}
    copy = trees.fetch_tree(URI)
    assert files.read_file(f"{copy}/a") == b"first"
    assert files.read_file(f"{copy}/b/c") == b"second"
    assert trees.fetch_tree(URI) == copy
    assert [name for _, name in store.done] == ["a", "b/c"]
    store.held[f"{URI}/a"] = b"changed"
    assert files.read_file(f"{trees.fetch_tree(URI)}/a") == b"changed"
    assert files.read_file(f"{copy}/a") == b"first"
