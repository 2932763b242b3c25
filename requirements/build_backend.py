"""Builds wheels as setuptools does, and adds `sql_util.pth` where packages go.

Setuptools has no way to put a `.pth` file there, in wheels and in editable installs alike.
`components/beam/sql_util.py` says what it is for.
"""

import base64
import hashlib
import pathlib
import zipfile
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401  (hooks of PEP 517 and PEP 660)
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

_ADDED = pathlib.Path("components/beam/sql_util.pth")


def build_wheel(wheel_directory: str, *arguments: Any, **keywords: Any) -> str:
    """Builds a wheel; returns its name."""
    name = build_meta.build_wheel(wheel_directory, *arguments, **keywords)
    _add_file(pathlib.Path(wheel_directory, name))
    return name


def build_editable(wheel_directory: str, *arguments: Any, **keywords: Any) -> str:
    """Builds a wheel that leads to this folder; returns its name."""
    name = build_meta.build_editable(wheel_directory, *arguments, **keywords)
    _add_file(pathlib.Path(wheel_directory, name))
    return name


def _add_file(wheel: pathlib.Path) -> None:
    """Adds the file to a wheel and to its list of files, which a zip cannot replace in place."""
    content = _ADDED.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(wheel) as built:
        entries = [(info, built.read(info)) for info in built.infolist()]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as file:
        for info, data in entries:
            if info.filename.endswith(".dist-info/RECORD"):
                file.writestr(_ADDED.name, content)
                data += f"{_ADDED.name},sha256={digest},{len(content)}\n".encode()
            file.writestr(info, data)
