"""Without room for a temporary file, no command can work, and each says so."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.e2e

_RUN = """
import errno, os, sys, tempfile
def refuse(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp")
setattr(tempfile, sys.argv.pop(1), refuse)
from image_pipeline.cli import main
main()
"""


@pytest.mark.parametrize("where", ["gettempdir", "mkdtemp"])
def test_no_room_for_a_temporary_file_is_said_in_a_sentence(where):
    ended = subprocess.run(
        [sys.executable, "-c", _RUN, where, "--version"], capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "Error: Cannot write a temporary file (No space left on device); free some space, or set "
        "TMPDIR to a folder that has some.\n"
    )
