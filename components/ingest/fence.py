"""Which run a working folder is of: the one that began last. Earlier ones change nothing more.

A runner may give up a worker that is only slow, or whose network was, and a person may start a run
anew. What comes back from the dead then finds another run's name here, and ends.
"""

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator
from typing import TypeVar

from image_pipeline.components import files
from image_pipeline.components.errors import UserError

_NAME = "run"
Item = TypeVar("Item")


def begin_run(work_dir: str) -> str:
    """Makes a run the last one of a working folder; returns its name."""
    run = uuid.uuid4().hex
    files.write_file(_path(work_dir), run.encode())
    return run


@contextlib.contextmanager
def hold_run(work_dir: str) -> Iterator[str]:
    """Is the last run of a working folder while the block runs, which deletes it; gives its name.

    If the block fails, no run is: what is still at work then ends, and a folder in which nothing
    was prepared is gone.
    """
    run = begin_run(work_dir)
    try:
        yield run
    except BaseException:
        with contextlib.suppress(OSError, UserError):  # What the block raises says more.
            if files.read_file(_path(work_dir)).decode() == run:
                files.delete(_path(work_dir))
            if files.is_local(work_dir):
                os.rmdir(work_dir)
        raise


def check_run(work_dir: str, run: str) -> None:
    """Makes sure that no other run has begun, or finished, in the working folder since.

    Args:
      work_dir: the working folder.
      run: the name of the own run; "" for a job that many runs are started from (a template), which
        is not checked.

    Raises:
      UserError: if one has.
    """
    if not run:
        return
    try:
        last = files.read_file(_path(work_dir)).decode()
    except FileNotFoundError:
        last = ""
    if last != run:
        raise UserError(
            f"Another run has {'begun' if last else 'ended'} in {work_dir!r} since this one began, "
            "so this one ends here; let one run at a time write a data set, or choose another "
            "--output."
        )


def check_after(items: Iterable[Item], work_dir: str, run: str) -> Iterator[Item]:
    """Passes items on and then checks, before the file that they are written to gets its name."""
    yield from items
    check_run(work_dir, run)


def _path(work_dir: str) -> str:
    return files.join(work_dir, _NAME)
