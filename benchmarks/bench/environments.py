"""Environments of other people's packages, each made once by uv, of pinned releases."""

import dataclasses
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Environment:
    """How an environment is made.

    Attributes:
      packages: what is installed in it, pinned.
      imported: the modules that only it has, for blocks of documents that import them.
      has_ours: whether this project is installed, too, without what it requires.
      is_beside: whether it sees the packages of the environment that runs this.
      base: the Python it is made of; None for the one that runs this.
      sees_system: whether it sees that Python's own packages.
      has_dependencies: whether what the packages require is installed, too.
      built: what is built from its sources with the packages above, last.
    """

    packages: tuple[str, ...]
    imported: tuple[str, ...] = ()
    has_ours: bool = False
    is_beside: bool = False
    base: str | None = None
    sees_system: bool = False
    has_dependencies: bool = True
    built: tuple[str, ...] = ()


class NotInstalledError(Exception):
    """An environment cannot be made here; the text is the reason."""


def make_environment(environment: Environment, folder: pathlib.Path) -> str:
    """Makes an environment, unless it is there.

    Args:
      environment: how it is made.
      folder: where.

    Returns:
      The path of its Python.

    Raises:
      NotInstalledError: a package does not install.
    """
    python, ready = folder / "bin" / "python", folder / ".ready"
    wanted = repr(environment)
    if ready.exists() and ready.read_text() == wanted:
        return str(python)
    print(f"making the environment {folder.name} …", flush=True)
    uv = str(pathlib.Path(sys.prefix, "bin", "uv"))
    system = ["--system-site-packages"] if environment.sees_system else []
    base = environment.base or sys.executable
    _run(uv, "venv", "--quiet", "--clear", *system, "--python", base, str(folder))
    install = [uv, "pip", "install", "--quiet", "--python", str(folder)]
    if environment.is_beside:
        (site,) = folder.glob("lib/python*/site-packages")
        own = next(path for path in sys.path if path.endswith("site-packages"))
        (site / "beside.pth").write_text(f"import site; site.addsitedir({own!r})\n")
    if environment.is_beside or not environment.has_dependencies:
        install.append("--no-deps")
    _run(*install, *environment.packages)
    if environment.built:
        _run(*install, "--no-build-isolation", *environment.built)
    if environment.has_ours:
        _run(*install, "--no-deps", "--editable", str(ROOT))
    ready.write_text(wanted)
    return str(python)


def read_requirements(path: pathlib.Path) -> tuple[str, ...]:
    """The packages of a requirements file, a line each."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return tuple(line for line in lines if line)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NotInstalledError(done.stderr.strip()[-600:])
