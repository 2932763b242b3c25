"""The project built as on a person's machine, from a copy of its sources."""

import pathlib
import shutil
import subprocess
import sys
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).parents[1]


def build_and_unpack(folder: pathlib.Path) -> pathlib.Path:
    """Builds a wheel, and unpacks it where packages would go.

    Args:
      folder: an empty one; the copied sources stay beside it.

    Returns:
      The folder.
    """
    source = folder.with_name(f"{folder.name}-source")
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("components", "pipeline"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["build-backend"]
    call = f"import sys, {backend} as backend; sys.argv[:] = ['setup.py'];"
    subprocess.run(
        [sys.executable, "-c", f"{call} backend.build_wheel({str(folder)!r})"],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        assert file.testzip() is None
        file.extractall(folder)
    return folder
