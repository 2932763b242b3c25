import errno
import os

import pytest

from image_pipeline.components import files
from image_pipeline.components.errors import UserError

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
