"""One folder for all that is temporary in this process, libraries' files and folders included.

TensorFlow, Beam and TFX leave files in the system's temporary folder when they are not asked to
end, and TensorFlow some even then. They are put into one folder, which goes with the process.
"""

import atexit
import os
import shutil
import tempfile

_PREFIX = "image-pipeline-"
_folder: str | None = None
_lasting: str | None = None


def use_folder() -> None:
    """Makes the folder; from now on, all that is temporary goes there. To be called once."""
    global _folder, _lasting
    _lasting = tempfile.gettempdir()
    _folder = tempfile.mkdtemp(prefix=_PREFIX)
    tempfile.tempdir = _folder
    os.environ["TMPDIR"] = _folder  # For C++ and for processes that are started.
    atexit.register(delete_folder)  # Before all others, so that it is called after them.


def delete_folder() -> None:
    """Deletes the folder, with what is in it."""
    if _folder is not None:
        shutil.rmtree(_folder, ignore_errors=True)


def make_lasting_folder() -> str:
    """Makes a folder that stays when the process has ended."""
    return tempfile.mkdtemp(prefix=_PREFIX, dir=_lasting)
