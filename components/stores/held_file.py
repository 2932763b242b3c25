"""A new file that waits in memory, or in the temporary folder, until it is sent."""

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any

from image_pipeline.components.errors import UserError


class HeldFile(tempfile.SpooledTemporaryFile):
    """Says of the temporary folder what Python says of a file without a name."""

    def write(self, data: Any) -> int:
        """Writes to memory, or to the disk if it is too much."""
        with _explained_folder():
            return super().write(data)

    def flush(self) -> None:
        """Brings to the disk what is not yet there."""
        with _explained_folder():
            super().flush()


@contextlib.contextmanager
def _explained_folder() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        folder = f"temporary folder {tempfile.tempdir}" if tempfile.tempdir else "temporary folder"
        raise UserError(f"{folder}: {error}; set TMPDIR to one with room.") from error
