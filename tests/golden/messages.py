"""What commands say, in text and as `--json`, of a small data set and of what is wrong."""

import contextlib
import json
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import Any
from unittest import mock

from image_pipeline.cli import call
from tests.golden.cases import CASES
from tests.golden.refusals import list_refusals

_SETS = ("--set", "ingest.splits={train: 0.6, eval: 0.4}", "--set", "ingest.shards=2")
_VIEW = ("--set", "view.height_px=16", "--set", "view.width_px=24")
_IMAGES = ("--images", "source/photos")
_INGEST = ("ingest", *_IMAGES, "--output", "data", *_SETS)
_ALL = ("--set", "ingest.max_bad_fraction=1")
# In this order: later ones read what earlier ones wrote.
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("init", "source/photos", "--yes", "--output", "config.yaml"),
    ("init", "source/photos", "--yes", "--output", "config.yaml", "--max-bad-fraction", "0.1"),
    ("plan", *_IMAGES, "--output", "data", *_SETS),
    ("plan", *_IMAGES, "--output", "data", *_SETS, "--json"),
    _INGEST,  # Too many files are not usable.
    (*_INGEST, *_ALL),
    (*_INGEST, *_ALL),  # There is nothing left to do.
    (*_INGEST, *_ALL, "--json"),
    ("verify", "data"),
    ("verify", "data", "--json"),
    ("verify", "data", "--epoch", "0", "--json"),
    ("quarantine", "list", "data"),
    ("quarantine", "list", "data", "--json"),
    ("update", "data", "--json"),
    ("inspect", "data"),
    ("inspect", "data", "--json"),
    ("options", "ingest.shards", "--json"),
    ("analyze", "data", "--output", "graph", *_VIEW),
    ("analyze", "data", "--output", "graph", *_VIEW, "--json"),
    ("inspect", "graph"),
    ("inspect", "graph", "--json"),
    ("report", "data", "--json"),
    # What is wrong.
    ("ingest", "--images", "nowhere", "--output", "other"),
    ("ingest", "--images", "source/photos", "--output", "other", "--set", "ingest.shard=2"),
    ("ingest", "--images", "source/photos", "--output", "other", "--set", "ingest.shards=0"),
    ("ingest", "--images", "source/photos", "--output", "other", "--set", "ingest.splits={a: 2}"),
    ("ingest", "--images", "source/photos"),
    ("analyze", "source", "--output", "other"),
    ("verify", "source"),
    ("inspect", "nowhere"),
    ("predict", "nowhere", "source/photos"),
    ("report", "graph"),
    ("run", "--images", "nowhere", "--output", "other"),
    ("nonsense",),
)
# A run, and questions about it: of what a network learned and of what takes how long, only the form
# is the same everywhere, and not whether lists of what was found have any entry.
FORMS: tuple[tuple[str, ...], ...] = (
    (
        *("run", *_IMAGES, "--output", "out", *_SETS, *_ALL, *_VIEW, "--json"),
        *("--set", "training.epochs=1", "--set", "feeding.batch_size=4"),
        *("--set", "evaluation.min_accuracy=0"),
    ),
    ("report", "out", "--json"),
    ("history", "out", "--json"),
    ("predict", "out", "source/photos/cat", "--json"),
    ("export", "out", "--output", "model.tflite", "--json"),
    ("doctor", "out", "--seconds", "0.1", "--json"),
)
# What a run finds, which may be nothing: its form is of no command but of the moment.
_FOUND = ("calls", "changes", "confused", "mislabelled")
# Times, memory and versions, which are the machine's and the moment's.
_VARIES = (
    (r"(\d+ (h|min) )?\d[\d,.]* (µs|ms|s|min)\b", "N s"),
    (r"\d[\d,.]* MB", "N MB"),
    (r'("[a-z_]*(?:seconds|_s|_mb|_ms|version|time)": )[^,\n}]+', r"\1…"),
    (r'("(?:memory|free_disk)_bytes": )\d+', r"\1…"),
    (r"\b[0-9a-f]{64}\b", "SHA-256"),
    (r"(source|code version  +) ?[0-9a-f]{16}\b", r"\1 VERSION"),
)


def list_messages(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """What each of `COMMANDS` says, run in an empty folder."""
    for arguments, code, said in _call_all(COMMANDS, folder):
        shown = {name: _settle(text, folder).splitlines() for name, text in said.items()}
        yield {"command": " ".join(arguments), "exit": code, **shown}


def list_forms(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """The form of what each of `FORMS` says, run in an empty folder."""
    for arguments, code, said in _call_all(FORMS, folder):
        forms = [_form(json.loads(line), 2) for line in said["out"].splitlines()]
        yield {"command": " ".join(arguments), "exit": code, "out": forms}


LISTED = {"messages": list_messages, "refusals": list_refusals, "run": list_forms}


def _call_all(
    commands: tuple[tuple[str, ...], ...], folder: pathlib.Path
) -> Iterator[tuple[tuple[str, ...], int, dict[str, str]]]:
    (folder / "source").mkdir()
    CASES["folder"].make(folder / "source")
    with contextlib.chdir(folder), _quiet():
        for arguments in commands:
            with _captured() as said:
                code = call(list(arguments))
            yield arguments, code, said


def _form(value: Any, levels: int) -> Any:
    """The keys of JSON, down to some level; of a list, its entries that differ."""
    if isinstance(value, dict):
        known = {name: "…" if name in _FOUND else each for name, each in value.items()}
        return {name: _form(each, levels - 1) for name, each in known.items()} if levels else "…"
    if isinstance(value, list):
        forms = [_form(each, levels) for each in value]
        return [each for at, each in enumerate(forms) if each not in forms[:at]]
    return "…"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leaves out how far it is every few seconds, and how this module is called."""
    with (
        mock.patch.dict(os.environ, COLUMNS="100"),
        mock.patch("image_pipeline.show.progress.ComponentProgress._print_lines"),
        mock.patch.object(sys.modules["__main__"], "__package__", None),
    ):
        yield


@contextlib.contextmanager
def _captured() -> Iterator[dict[str, str]]:
    """What the process writes, whoever writes it."""
    said: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)]
        kept = [os.dup(descriptor) for descriptor in (1, 2)]
        for descriptor, file in zip((1, 2), files, strict=True):
            os.dup2(file.fileno(), descriptor)
        name, sys.argv[0] = sys.argv[0], "image-pipeline"
        try:
            yield said
        finally:
            sys.argv[0] = name
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor, old in zip((1, 2), kept, strict=True):
                os.dup2(old, descriptor)
                os.close(old)
            for name, file in zip(("out", "err"), files, strict=True):
                file.seek(0)
                said[name] = file.read()


def _settle(text: str, folder: pathlib.Path) -> str:
    for path in (os.path.realpath(folder), str(folder)):
        text = text.replace(path, "FOLDER")
    for pattern, replacement in _VARIES:
        text = re.sub(pattern, replacement, text)
    # The last digits are the processor's.
    return re.sub(r"\d+\.\d{5,}(e[+-]?\d+)?", lambda found: f"{float(found[0]):.5g}", text)


if __name__ == "__main__":
    print(json.dumps(list(LISTED[sys.argv[1]](pathlib.Path(sys.argv[2])))))
