"""The folders of images that benchmarks are given, checked before anything else is done.

The standard library only: scripts import this as `bench.folders`.
"""

import argparse
import json
import pathlib
import sys
from typing import Any

_JPEG = b"\xff\xd8"
_SUFFIXES = (".jpg", ".jpeg")


def list_photos(folder: pathlib.Path) -> list[pathlib.Path]:
    """The files below a folder that are called JPEGs and begin as such, sorted."""
    named = (path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES)
    return sorted(path for path in named if path.is_file() and _begin(path) == _JPEG)


def photos(text: str) -> str:
    """A command line's folder of photos, in any layout.

    Raises:
      argparse.ArgumentTypeError: if there is no such folder, or none of its files is a JPEG.
    """
    if not list_photos(_folder(text)):
        raise argparse.ArgumentTypeError(f"{text!r} has no photo: no JPEG that is called so")
    return text


def classes(text: str) -> str:
    """A command line's folder of class folders.

    Raises:
      argparse.ArgumentTypeError: if there is no such folder, or it has no such files.
    """
    if not any(path.is_file() for path in _folder(text).glob("*/*")):
        raise argparse.ArgumentTypeError(f"{text!r} has no files in class folders")
    return text


def splits(text: str) -> str:
    """A command line's folder with train/<class>/<file> and test/<class>/<file>; as `classes`."""
    for split in ("train", "test"):
        classes(f"{text}/{split}")
    return text


def claim(folder: pathlib.Path, made_of: Any) -> None:
    """Notes what a folder of kept data is made of, or ends the program if that is something else.

    Args:
      folder: where the data is, or will be.
      made_of: anything that JSON can hold.
    """
    note = folder / "made_of.json"
    content = json.dumps(made_of, sort_keys=True)
    if note.exists() and note.read_text() != content:
        sys.exit(
            f"{folder} was made of {note.read_text()}, not of {content}; delete it, or give "
            "another folder as --keep."
        )
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(content)


def _folder(text: str) -> pathlib.Path:
    folder = pathlib.Path(text)
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    return folder


def _begin(path: pathlib.Path) -> bytes:
    with path.open("rb") as file:
        return file.read(2)
