"""A working folder that no lock guards: of two runs that use it at once, the later one has it."""

import contextlib
import uuid
from collections.abc import Iterator

from image_pipeline.components import files
from image_pipeline.components.errors import UserError

_MARK = "run.txt"


@contextlib.contextmanager
def hold_folder(work_dir: str) -> Iterator[None]:
    """Has what fails because another run used the folder say so.

    Runs of a compiled pipeline may be on any machines, and a store has no locks. What they write
    does not depend on who writes it, but the first to end deletes the folder.

    Args:
      work_dir: the working folder.

    Raises:
      UserError: if the block fails, and another run has begun or ended in the folder since.
    """
    path, mark = files.join(work_dir, _MARK), uuid.uuid4().hex.encode()
    files.write_file(path, mark)
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if _holds(path, mark):
            raise
        raise UserError(
            f"Another run with the same images and options used the working folder {work_dir!r} "
            "at the same time; run this one again when that has ended, or give each an "
            "images-fingerprint of its own."
        ) from error


def _holds(path: str, mark: bytes) -> bool:
    try:
        return files.read_file(path) == mark
    except FileNotFoundError:
        return False
    except (OSError, UserError):  # It cannot be told: what failed first is said as it is.
        return True
