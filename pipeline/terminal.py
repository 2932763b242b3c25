"""Keeps the terminal for people: what libraries print goes to a log file."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator

from rich.console import Console


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
    os.makedirs(os.path.dirname(log_path), exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with open(log_path, "a", encoding="utf-8") as log, os.fdopen(os.dup(1), "w") as terminal:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            yield Console(file=terminal, highlight=False)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for handler in logging.root.handlers:
                handler.flush()
            for descriptor, copy in zip((1, 2), saved, strict=True):
                os.dup2(copy, descriptor)
                os.close(copy)
