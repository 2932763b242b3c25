"""Small folders and files that libraries read or write, in stores that they do not know, too.

TensorFlow opens local paths and `gs://`. A folder of another store is copied to this machine before
it is read, and from it when it is whole.
"""

import atexit
import collections
import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.threads import map_in_order

_THREADS = 8

Listed = tuple[str, int, int]  # as `files.list_remote_tree` gives it


def fetch_tree(folder: str) -> str:
    """Finds a folder that TensorFlow can read: the given one, or a copy of what it shows now.

    A copy lasts as long as the process, since an exported model reads its vocabulary once more. It
    is made again only if a file was changed.

    Raises:
      UserError: if there is no such bucket or folder, or its store refuses or does not answer; or
        if a local folder holds a pipe or a device, for which TensorFlow would wait.
    """
    if files.is_local(folder):
        for name in list_names(folder):
            _refuse_pipe(files.join(folder, name))
    if files.is_known_to_tensorflow(folder):
        return folder
    found = files.list_remote_tree(folder)
    if not (listed := tuple(each for each in found if not each[0].startswith("."))):
        raise UserError(
            f"{folder} must hold a graph, a model or a checkpoint, but is empty; check it."
        )
    return _copy(folder, listed)


def _refuse_pipe(path: str) -> None:
    try:
        files.refuse_pipe(path)
    except OSError as error:
        raise UserError(
            f"{path!r} cannot be read ({error.strerror}); restore its folder from a copy."
        ) from error


def fetch_file(path: str) -> str:
    """Finds a file that any library can read: the given one, or a copy, as `fetch_tree`'s.

    Raises:
      FileNotFoundError: if there is no such file.
      UserError: if its store refuses to give it, or does not answer.
    """
    if files.is_local(path):
        return path
    folder, _, name = path.rpartition("/")
    return os.path.join(_copy(folder, ((name, *files.stat_file(path)),)), name)


@functools.lru_cache(maxsize=32)
def _copy(folder: str, listed: tuple[Listed, ...]) -> str:
    target = os.path.join(
        _copies_dir(), hashlib.sha256(repr((folder, listed)).encode()).hexdigest()
    )
    _copy_files(folder, target, [name for name, _, _ in listed])
    return target


@functools.cache
def _copies_dir() -> str:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def write_tree(folder: str, last: str) -> Iterator[str]:
    """Gives a folder for TensorFlow to write; what it holds goes to its store when the block ends.

    If the block ends with an error, nothing is sent.

    Args:
      folder: where it is to be.
      last: name of the file without which nobody takes the folder for whole.

    Raises:
      UserError: if there is no such bucket, or its store refuses or does not answer.
    """
    if files.is_known_to_tensorflow(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory() as local:
        yield local
        send_tree(local, folder, last)


def send_tree(local: str, folder: str, last: str) -> None:
    """Replaces a folder by one of this machine, so that it is never half of each.

    Args:
      local: a folder on this machine.
      folder: where it is to be, in a store or on this machine.
      last: name of the file without which nobody takes the folder for whole: sent when all others
        are there, and deleted first if it is there already.

    Raises:
      UserError: if there is no such bucket, or its store refuses or does not answer.
    """
    names = list_names(local)
    old = {*list_names(folder)}
    if last in old:
        files.delete(files.join(folder, last))
    _copy_files(local, folder, [name for name in names if name != last])
    files.delete(*(files.join(folder, name) for name in sorted(old - {*names})))
    _copy_files(local, folder, [name for name in names if name == last])


def list_names(folder: str) -> list[str]:
    """All files below a folder, sorted, relative to it; none if it is not there.

    Raises:
      UserError: if there is no such bucket, or its store refuses or does not answer.
    """
    if not files.is_local(folder):
        names = (name for name, _, _ in files.list_remote_tree(folder))
        # TensorFlow makes folders in stores: empty objects whose names end in a slash.
        return [name for name in names if name and not name.endswith("/")]
    return sorted(
        os.path.relpath(os.path.join(place, name), folder)
        for place, _, found in os.walk(folder)
        for name in found
    )


def copy_tree(source: str, target: str) -> None:
    """Copies a folder, less what is hidden in it.

    Raises:
      UserError: if a store refuses or does not answer.
    """
    _copy_files(source, target, [name for name in list_names(source) if name[0] != "."])


def _copy_files(source: str, target: str, names: list[str]) -> None:
    def copy(name: str) -> None:
        with files.write_atomically(files.join(target, name)) as file:
            for block in files.read_blocks(files.join(source, name)):
                file.write(block)

    collections.deque(map_in_order(copy, names, _THREADS), maxlen=0)
