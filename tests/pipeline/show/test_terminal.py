"""In a terminal, people see our lines; what libraries write, whichever way, is in the log."""

import os
import pathlib
import pty
import re
import subprocess
import sys

import pytest

from image_pipeline.cli import call
from tests.drawings import write_folder

pytestmark = pytest.mark.e2e

_FULL_LOG = """
import sys
from image_pipeline.components.errors import UserError
from image_pipeline import cli
from image_pipeline.commands.shared import open_terminal

@cli.cli.command("fill")
def fill():
    with open_terminal("/dev/full"):
        print("what a library says")
        raise UserError("The disk is full.")

sys.exit(cli.call(["fill"]))
"""


def test_an_error_is_told_though_the_logs_disk_is_full():
    environment = {name: each for name, each in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", _FULL_LOG], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stderr) == (1, "Error: The disk is full.\n")


_NOISY = """
import importlib, os, sys
module, name = sys.argv.pop(1).split(":")
terminal, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
os.dup2(nowhere, 2)  # Imported here, libraries are not yet kept from the terminal.
owner = importlib.import_module(module)
os.dup2(terminal, 2)
real = getattr(owner, name)

def noisy(*arguments, **options):
    import logging, time, warnings
    from absl import logging as absl_logging
    time.sleep(0.5)  # The bar is drawn.
    print("NOISE by print", flush=True)
    print("NOISE by stderr", file=sys.stderr, flush=True)
    os.write(1, b"NOISE by C to 1\\n")
    os.write(2, b"NOISE by C to 2\\n")
    logging.getLogger("a.library").error("NOISE by logging")
    absl_logging.warning("NOISE by absl")
    warnings.warn("NOISE by warnings")
    return real(*arguments, **options)

setattr(owner, name, noisy)
from image_pipeline.cli import main
main()
"""
_BATCHES = ("--set", "feeding.batch_size=4")
_WAYS = ("print", "stderr", "C to 1", "C to 2", "logging", "absl", "warnings")
_CONTROL = re.compile(r"\x1b\[[?\d;]*[a-zA-Z]|\r")


def _run_in_terminal(place, *arguments):
    """What a person sees of a command, without colours and movements of the cursor."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _NOISY, place, *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            read = os.read(ours, 65536)
        except OSError:  # So Linux says that no one has the terminal open any more.
            break
        if not read:
            break
        seen += read
    os.close(ours)
    text = _CONTROL.sub("", seen.decode())
    assert process.wait() == 0, text
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("terminal")
    write_folder(made / "images", per_class=10)
    images, data = str(made / "images"), str(made / "data")
    assert call(["ingest", "--images", images, "--output", data, "--quiet"]) == 0
    return made


def _read_log(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8")


def test_an_ingest(folder):
    place = "image_pipeline.components.ingest.run:write_shard"
    images, output = folder / "images", folder / "out"
    seen = _run_in_terminal(place, "ingest", "--images", images, "--output", output)
    assert "NOISE" not in seen
    assert "ingest" in seen and "━" in seen
    assert re.search(r"^written +20 \(train \d+, eval \d+\)$", seen, re.MULTILINE)
    log = _read_log(output / ".ingest.log")
    assert [way for way in _WAYS if f"NOISE by {way}" not in log] == []


@pytest.mark.wide
def test_an_analysis(folder):
    small = ("--set", "view.height_px=8", "--set", "view.width_px=8")
    place, output = "image_pipeline.components.transform.finish:write_summary", folder / "graph"
    seen = _run_in_terminal(place, "analyze", folder / "data", "--output", output, *small)
    first = re.sub(r"^.*(?:━+|analysis).*$", "", seen, flags=re.MULTILINE).split()
    assert "NOISE" not in seen and "tensorflow" not in seen.lower() and first
    log = _read_log(output / ".analyze.log")
    assert [way for way in _WAYS if f"NOISE by {way}" not in log] == []


def test_verify(folder):
    place = "image_pipeline.components.dataset.verify:check_shard"
    seen = _run_in_terminal(place, "verify", folder / "data")
    assert seen == "The data set is intact.\n"


@pytest.mark.wide
def test_verify_of_an_epoch(folder):
    place = "image_pipeline.components.feeding.verify_epoch:_read_step"
    seen = _run_in_terminal(place, "verify", folder / "data", "--epoch", "0", *_BATCHES)
    first, second, *rest = seen.splitlines()
    assert first.startswith("Epoch 0: ") and second.split() == ["shuffle", "here", "ideal"]
    assert len(rest) == 4
