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

_SETS = ("--set", "ingest.splits={train: 0.6, eval: 0.4}", "--set", "ingest.shards=2")
_VIEW = ("--set", "view.height_px=16", "--set", "view.width_px=24")
_INGEST = ("ingest", "--images", "source/photos", "--output", "data", *_SETS)
# In this order: later ones read what earlier ones wrote.
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("init", "source/photos", "--yes", "--output", "config.yaml"),
    ("plan", "--images", "source/photos", "--output", "data", *_SETS),
    _INGEST,  # Too many files are not usable.
    (*_INGEST, "--set", "ingest.max_bad_fraction=1"),
    (*_INGEST, "--set", "ingest.max_bad_fraction=1"),  # There is nothing left to do.
    ("verify", "data"),
    ("quarantine", "list", "data"),
    ("quarantine", "list", "data", "--json"),
    ("inspect", "data"),
    ("inspect", "data", "--json"),
    ("analyze", "data", "--output", "graph", *_VIEW),
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
# Times, memory and versions, which are the machine's and the moment's; and how far it was by then.
_VARIES = (
    (r"^  \w[\w ]* +[\d,]+ of [\d,]+ images?\n", ""),
    (r"\d[\d,.]* (µs|ms|s|min)\b", r"N \1"),
    (r"\d[\d,.]* MB", "N MB"),
    (r'("[a-z_]*(?:seconds|_s|_mb|_ms|version|time)": )[^,\n}]+', r"\1…"),
    (r"\b[0-9a-f]{64}\b", "SHA-256"),
    (r"(source|code version  +) ?[0-9a-f]{16}\b", r"\1 VERSION"),
)


def list_messages(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """What each command says, run in an empty folder."""
    (folder / "source").mkdir()
    CASES["folder"].make(folder / "source")
    with contextlib.chdir(folder), mock.patch.dict(os.environ, COLUMNS="100"):
        for arguments in COMMANDS:
            with _captured() as said:
                code = call(list(arguments))
            shown = {name: _settle(text, folder).splitlines() for name, text in said.items()}
            yield {"command": " ".join(arguments), "exit": code, **shown}


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
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


if __name__ == "__main__":
    print(json.dumps(list(list_messages(pathlib.Path(sys.argv[1])))))
