"""HDF5 and Zarr files are read in a process for each, by their libraries.

What is damaged may let these hang, crash or take all memory. So each answer has a limit of time and
of memory (see `array_worker`), and a process that ends is started again: what is damaged costs its
own rows.
"""

import dataclasses
import functools
import os
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from image_pipeline.components import files, progress
from image_pipeline.components.archives.file_bytes import FileBytes
from image_pipeline.components.arrays import array_worker
from image_pipeline.components.arrays.stored_array import StoredArray, read_range
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.processes import Child
from image_pipeline.components.sources.folder import OUTSIDE

_MAIN = f"{array_worker.__name__}:main"
_ANSWER_S = 120.0
# Of what is waited for answers that never come, of one file: then no more of it is asked for.
_MOST_LOST_S = 300.0
_MOST_PROCESSES = 8  # those that were asked last; an idle one takes some 70 MB
# A question costs as much as to unpack some 50 kB.
_QUESTION_BYTES = 2**16
_FILE_BYTES = 2**14  # a small JPEG, where sizes are not known before
_SIZES_AT_ONCE = 64  # files of any size, each of which is read to be measured
_BY_OTHERS = (-signal.SIGKILL, -signal.SIGTERM)  # No file makes a library end so.


class ArrayProcess:
    """A file of arrays and the process that reads it. Threads, and forks, may share it."""

    def __init__(self, opener: str, path: str):
        """Starts nothing yet.

        Args:
          opener: what opens it there, see `arrays.OPENERS`.
          path: of the file, or its URI.
        """
        self.opener, self.path = opener, path
        self._lock, self._ends, self._lost_s = threading.Lock(), 0, 0.0

    def open(self) -> list[StoredArray]:
        """The arrays of the file; raises as its opener, and ValueError if that ends the process."""
        try:
            found: list[StoredArray] = self._ask(array_worker.LIST)
        except BadImage as error:
            raise ValueError(error.message) from error
        return list(map(self._connect, found))

    def _connect(self, array: StoredArray) -> StoredArray:
        """An array as it was listed, with what reads it."""
        if array.problem:
            return array
        if array.offset is not None:
            source = FileBytes(self.path)
            read = read_range(source, array.offset, array.shape, array.dtype)
            return dataclasses.replace(array, read=read)
        row_bytes = _FILE_BYTES if array.dtype.hasobject else max(1, array.row_bytes)
        blocks = max(1, _QUESTION_BYTES // (array.rows_at_once * row_bytes))
        return dataclasses.replace(
            array,
            read=functools.partial(self._read, array),
            read_sizes=functools.partial(self._read_sizes, array) if array.holds_files else None,
            rows_a_question=blocks * array.rows_at_once,
        )

    def _read(self, array: StoredArray, start: int, stop: int) -> np.ndarray:
        rows = self._ask((array.name, start, stop, False))
        if (rows.shape, rows.dtype) != ((stop - start, *array.shape[1:]), array.dtype):
            raise BadImage(CORRUPT, f"{array.name!r} in {self.path!r} has other rows than it had")
        return rows

    def _read_sizes(self, array: StoredArray, start: int, stop: int) -> Sequence[int]:
        sizes: list[int] = []
        for first in range(start, stop, _SIZES_AT_ONCE):
            last = min(first + _SIZES_AT_ONCE, stop)
            sizes += self._ask((array.name, first, last, True))
        return sizes

    def _ask(self, question: Any) -> Any:
        """Asks, and waits for the answer.

        Raises:
          BadImage: if that part of the file is damaged, or the process does not answer.
          OSError, ValueError, UserError: if the file cannot be opened; its store does not give it;
            the system ends the process.
        """
        with self._lock:
            if self._lost_s > _MOST_LOST_S:
                raise BadImage(
                    CORRUPT,
                    f"no more of {self.path!r} is read: its reader crashed or hung {self._ends} "
                    f"times, {self._lost_s:.0f} s in all",
                )
            # A fork has one of its own, since both would read each other's answers.
            child = _start(self, os.getpid(), self._ends)
            answer, begun_s = None, time.monotonic()
            try:
                with progress.named(f"reading {self.path}"):
                    answer = self._talk(child, question)
            finally:
                if answer is None:
                    child.kill()  # Or the next question would get this one's answer.
                    self._ends += 1
                    self._lost_s += time.monotonic() - begun_s
        del child  # An error's traceback would keep it, and so its process.
        if isinstance(answer, files.OutsideError):
            raise BadImage(OUTSIDE, f"{answer.filename!r} is a link that leads out of the store")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _talk(self, child: Child, question: Any) -> Any:
        """Asks a child, and gives it what it asks for meanwhile: parts of a file behind a URI."""
        until_s = time.monotonic() + _ANSWER_S
        child.send(question)
        while True:
            try:
                answer = child.receive(until_s)
            except TimeoutError as error:
                what = f"did not answer within {_ANSWER_S:g} s"
                raise BadImage(CORRUPT, f"the reader of {self.path!r} {what}") from error
            except (EOFError, ConnectionError) as error:
                raise self._explain_end(child) from error
            if not isinstance(answer, array_worker.Part):
                return answer
            asked_s = time.monotonic()
            child.send(files.read_file(self.path, answer.start, answer.end))
            until_s += time.monotonic() - asked_s

    def _explain_end(self, child: Child) -> Exception:
        """Is it the file that has ended it, or the system?"""
        what = f"eader of {self.path!r} {child.tell_end()}"
        if child.find_end() in _BY_OTHERS:
            return UserError(f"The r{what}; free some memory, and run again.")
        return BadImage(CORRUPT, f"the r{what}")


@functools.lru_cache(_MOST_PROCESSES)
def _start(process: ArrayProcess, pid: int, ends: int) -> Child:
    """The child of this process, unless it has ended since; forgotten, it ends."""
    size = "" if files.is_local(process.path) else str(files.stat_file(process.path)[0])
    return Child(_MAIN, process.opener, process.path, size)
