"""Keeps the terminal for people: what libraries print goes to a log file."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console

from image_pipeline.components.errors import UserError


@contextlib.contextmanager
def quiet_terminal(log_path: str) -> Iterator[Console]:
    """Sends everything written to stdout and stderr to a log file while the block runs.

    TensorFlow and other C++ libraries write to the file descriptors themselves, so those are
    redirected, not Python's streams only.

    Args:
      log_path: the log file; the block's output is appended.

    Yields:
      A console that still reaches the terminal.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with _open_log(log_path) as log, os.fdopen(os.dup(1), "w") as terminal:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            yield Console(file=terminal, highlight=False)
        finally:
            for stream in (sys.stdout, sys.stderr):
                _flush(stream)
            for handler in logging.root.handlers:
                with contextlib.suppress(OSError):
                    handler.flush()
            for descriptor, copy in zip((1, 2), saved, strict=True):
                os.dup2(copy, descriptor)
                os.close(copy)


def _open_log(path: str) -> TextIO:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return open(path, "a", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"Cannot write {path!r}: {error.strerror}; choose another --output."
        ) from error


def _flush(stream: TextIO) -> None:
    """Flushes; drops what a full disk does not take, which would be retried forever."""
    try:
        stream.flush()
    except OSError:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), stream.fileno())
        stream.flush()
