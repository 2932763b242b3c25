"""One folder for all temporary files of this process, including the libraries'.

TensorFlow, Beam and TFX leave files in the system's temporary folder when they are interrupted, and
TensorFlow leaves some in any case. They go into one folder, deleted with the process.
"""

import atexit
import os
import shutil
import tempfile

from image_pipeline.components.errors import UserError
from image_pipeline.components.files import LASTING

_PREFIX = "image-pipeline-"
_folder: str | None = None
_lasting: str | None = None


def use_folder() -> None:
    """Makes the folder; from now on, all temporary files go there. To be called once.

    Raises:
      UserError: if there is no room for it anywhere.
    """
    global _folder, _lasting
    try:
        _lasting = tempfile.gettempdir()
        _folder = tempfile.mkdtemp(prefix=_PREFIX)
    except OSError as error:
        raise UserError(
            f"Cannot write a temporary file ({error.strerror}); free some space, or set TMPDIR "
            "to a folder that has some."
        ) from error
    tempfile.tempdir = _folder
    os.environ["TMPDIR"] = _folder  # For C++ and for child processes.
    os.environ.setdefault(LASTING, _lasting)  # A command in a command has that one's.
    atexit.register(delete_folder)  # Registered first, so that it is called last.


def delete_folder() -> None:
    """Deletes the folder and its contents."""
    if _folder is not None:
        shutil.rmtree(_folder, ignore_errors=True)


def make_lasting_folder() -> str:
    """Makes a folder that outlives the process."""
    return tempfile.mkdtemp(prefix=_PREFIX, dir=_lasting)
