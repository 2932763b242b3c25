"""The process that reads a file of arrays by its library, and answers an `ArrayProcess`."""

import dataclasses
import io
import os
import resource
import time
from typing import Any, NamedTuple

import psutil

from image_pipeline.components import files
from image_pipeline.components.arrays.stored_array import StoredArray, find_opener, read_nothing
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.messages import describe_error
from image_pipeline.components.processes import Link
from image_pipeline.components.stores.remote import ReadAt

LIST = "list"
"""Asks for the arrays; else an array's name, a first row and the one after the last is asked for,
and whether the sizes of these rows are meant."""

_ANSWER_CPU_S = 60  # of processor time: what goes round for ever ends, whoever still waits for it
# Of memory: what an answer takes besides its values, and how often libraries copy these.
_ANSWER_BYTES, _COPIES = 384 * 2**20, 4
_OBJECT_BYTES = 256 * 2**20  # of a file or text, whose size is not known before
_HELD_BYTES = 8 * 2**20  # of a file behind a URI
_SELF = psutil.Process()


class Part(NamedTuple):
    """Asks the parent, which has the credentials of stores, for these bytes of the file."""

    start: int
    end: int


def main(link: Link, opener: str, path: str, size: str) -> None:
    """Answers until the parent wants no more: by what was asked for, or by an error to raise.

    Args:
      link: to the parent.
      opener: what opens the file, see `arrays.OPENERS`.
      path: of the file, or its URI.
      size: that of a file behind a URI, in bytes; "" of one that is here.
    """
    open_ = find_opener(opener)  # What is imported takes its memory before any is measured.

    def read(start: int, length: int) -> bytes:
        link.send(Part(start, min(start + length, int(size))))
        return link.receive()

    file = io.BufferedReader(ReadAt(read, int(size)), _HELD_BYTES) if size else None
    arrays: dict[str, StoredArray] = {}
    while True:
        try:
            question = link.receive()
        except (EOFError, OSError):
            os._exit(0)
        try:
            if not arrays:
                _allow(0)
                arrays = {array.name: array for array in open_(path, file)}
            link.send(_answer(arrays, path, question))
        except ConnectionError:
            os._exit(0)
        except Exception as error:
            link.send(_judge(error, question))


def _answer(arrays: dict[str, StoredArray], path: str, question: Any) -> Any:
    if question == LIST:
        return [
            dataclasses.replace(array, read=read_nothing, read_sizes=None)
            for array in arrays.values()
        ]
    name, start, stop, are_sizes = question
    array = arrays.get(name)
    if array is None:
        raise BadImage(CORRUPT, f"{path!r} has no {name!r} any more")
    at_once = array.rows_at_once if are_sizes else stop - start
    is_known = not array.dtype.hasobject
    values = max(at_once, array.rows_at_once) * array.row_bytes if is_known else _OBJECT_BYTES
    _allow(values)
    if not are_sizes:
        return array.read(start, stop)
    parts = (array.read(at, min(at + at_once, stop)) for at in range(start, stop, at_once))
    return [len(file) for files_ in parts for file in files_]


def _allow(value_bytes: int) -> None:
    """Sets what this process may take from now on, of memory and of processor time."""
    most_bytes = _SELF.memory_info().vms + _ANSWER_BYTES + _COPIES * value_bytes
    for limit, most in (
        (resource.RLIMIT_AS, most_bytes),
        (resource.RLIMIT_CPU, int(time.process_time()) + _ANSWER_CPU_S),
    ):
        _, hard = resource.getrlimit(limit)
        resource.setrlimit(limit, (most if hard < 0 else min(most, hard), hard))


def _judge(error: Exception, question: Any) -> Exception:
    """An error as one that the parent knows: a library's own may be of any type."""
    is_missing = question == LIST and isinstance(error, FileNotFoundError)
    if is_missing or isinstance(error, BadImage | UserError | files.OutsideError):
        return error
    is_said = isinstance(error, OSError | RuntimeError | ValueError)
    why = " ".join(str(error).split()) if is_said else describe_error(error)
    if isinstance(error, MemoryError):
        why = "it takes far more memory than its values"
    if question == LIST:
        return ValueError(why)
    return BadImage(CORRUPT, f"'/{question[0]}' cannot be read ({why})")
