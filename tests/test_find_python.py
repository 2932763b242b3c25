"""Which Python a clone takes, by what is on the PATH and by the system's glibc."""

import pathlib
import subprocess

import pytest

pytestmark = pytest.mark.e2e

SCRIPT = pathlib.Path(__file__).parents[1] / "requirements" / "find_python.sh"
# What the script itself calls.
TOOLS = ("cut", "echo", "head", "printf", "sed", "sh", "sort")


def write(path, code):
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)


def find(tmp_path, glibc, programs):
    """Runs the script where only these programs are: name -> version, or what it does."""
    for name in TOOLS:
        (tmp_path / name).symlink_to(pathlib.Path("/usr/bin", name))
    write(tmp_path / "getconf", f"echo glibc {glibc}" if glibc else "exit 1")
    for name, said in programs.items():
        is_version = said[0].isdigit()
        answer = f'[ "$1" = --version ] && echo Python {said} || echo {said}'
        write(tmp_path / name, answer if is_version else said)
    return subprocess.run(
        ["sh", str(SCRIPT)], capture_output=True, text=True, env={"PATH": str(tmp_path)}
    )


@pytest.mark.parametrize(
    ("glibc", "programs", "found"),
    [
        ("2.41", {"python3": "3.13"}, "python3"),
        ("2.39", {"python3": "3.14", "python3.12": "3.12", "python3.11": "3.11"}, "python3.12"),
        ("2.41", {"python3.13": "exit 127", "python3.11": "3.11"}, "python3.11"),  # A shim.
        ("2.36", {"python3.13": "3.13", "python3": "3.11"}, "python3"),
        ("2.4", {"python3.13": "3.13", "python3.11": "3.11"}, "python3.11"),  # Not 2.40.
        ("", {"python3.13": "3.13", "python3.11": "3.11"}, "python3.11"),
    ],
)
def test_the_newest_that_fits_is_taken(tmp_path, glibc, programs, found):
    assert find(tmp_path, glibc, programs).stdout == f"{tmp_path / found}\n"


def test_uv_brings_one_where_there_is_none(tmp_path):
    uv = 'case "$*" in "python install --quiet 3.13") ;; "python find 3.13") echo /found;; esac'
    assert find(tmp_path, "2.41", {"python3": "3.9", "uv": uv}).stdout == "/found\n"


@pytest.mark.parametrize(
    ("glibc", "programs", "says"),
    [
        ("2.41", {"python3": "3.14"}, "Python 3.13, 3.12 or 3.11, with venv, on the PATH; here"),
        ("2.36", {"python3.13": "3.13"}, "(TFX has newer ones only for glibc 2.39 and later; this"),
        ("2.36", {}, "here python3 is missing."),
        # Debian's python3 without python3-venv has no ensurepip.
        ("2.41", {"python3": "exit 1"}, "apt install python3 python3-venv"),
    ],
)
def test_what_is_missing_is_said(tmp_path, glibc, programs, says):
    done = find(tmp_path, glibc, programs)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr
