import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.e2e

COMPLETE = """\
export PATH={bin}:$PATH
eval "$(_IMAGE_PIPELINE_COMPLETE=bash_source image-pipeline)"
compopt() {{ COMPREPLY+=("$2"); }}
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_image_pipeline_completion image-pipeline
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
NO_SPACE = "nospace"


def _complete(*words):
    """What bash is told, by the script that people load, for a line that it has split."""
    quoted = " ".join(f"'{word}'" for word in ("image-pipeline", *words))
    script = COMPLETE.format(bin=os.path.dirname(sys.executable), words=quoted)
    done = subprocess.run([shutil.which("bash"), "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def test_a_key_completes_without_a_space_after_it():
    assert _complete("run", "--set", "training.epo") == ["training.epochs=", NO_SPACE]


def test_values_complete_after_the_equals_sign_as_bash_splits_it():
    assert _complete("ingest", "--set", "feeding.layout", "=") == ["NHWC", "NCHW"]
    assert _complete(
        "run", "--set", "view.dtype", "=", "uint8", "--set", "view.dtype", "=", "f"
    ) == ["float32"]


def test_a_key_completes_for_the_command_that_describes_it():
    assert _complete("options", "feeding.many_views.m") == ["feeding.many_views.mirror"]


def test_options_in_lists_cannot_be_set_alone():
    assert _complete("run", "--set", "feeding.augment") == ["feeding.augment=", NO_SPACE]
