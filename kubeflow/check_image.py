"""Executes the Dockerfile's steps in a fresh virtual environment, where there is no Docker.

COPY and RUN are done as they stand in the Dockerfile, with the environment in the place of the
image's Python (`--system` becomes `--python`) and with the downloads kept (`--no-cache` is left
out). Then every module of the project must come from what was installed, with the checkout out of
sight, and each step's command must start. It takes the packages of the lock, about 3 GB.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping

ROOT = pathlib.Path(__file__).parents[1]
DOCKERFILE = ROOT / "kubeflow" / "Dockerfile"
FOLDERS = {"components": "image_pipeline/components", "pipeline": "image_pipeline"}
STEP_TIMEOUT_S = 1800
_IMPORT_ALL = """
import importlib, pathlib, pkgutil, sys

for package in sys.argv[1:]:
    found = importlib.import_module(package)
    names = [each.name for each in pkgutil.walk_packages(found.__path__, f"{package}.")]
    for name in names:
        path = importlib.import_module(name).__file__
        if not pathlib.Path(path).is_relative_to(sys.prefix):
            sys.exit(f"{name} comes from {path}, not from {sys.prefix}.")
    print(f"{len(names)} modules of {package}")
"""


def read_steps(text: str) -> Iterator[tuple[str, str]]:
    """The instructions of a Dockerfile: (name in capitals, the rest of the line)."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, rest = line.strip().partition(" ")
            yield name.upper(), rest.strip()


def do_step(
    name: str, rest: str, app_dir: pathlib.Path, environment: Mapping[str, str]
) -> list[str]:
    """Does one instruction.

    Args:
      name: the instruction.
      rest: what stands behind it.
      app_dir: the working directory of the image.
      environment: variables of the commands, among them VIRTUAL_ENV.

    Returns:
      The image's command if this names it, else nothing.

    Raises:
      ValueError: for an instruction that this does not know.
      subprocess.CalledProcessError: if the command fails.
    """
    if name == "COPY":
        copy(rest, app_dir)
    elif name == "RUN":
        python = shlex.quote(f"{environment['VIRTUAL_ENV']}/bin/python")
        command = rest.replace("--system", f"--python {python}")
        command = re.sub(r"--no-cache(-dir)?\b", "", command)
        subprocess.run(
            command, shell=True, check=True, cwd=app_dir, env=environment, timeout=STEP_TIMEOUT_S
        )
    elif name == "ENTRYPOINT":
        return [part.strip().strip('"') for part in rest.strip("[]").split(",")]
    elif name not in ("FROM", "WORKDIR"):
        raise ValueError(f"{DOCKERFILE} must have COPY and RUN steps only, got {name}.")
    return []


def copy(rest: str, app_dir: pathlib.Path) -> None:
    """COPY: files into a folder, or a folder to a folder, from the repository."""
    *sources, target = rest.split()
    for source in sources:
        if (ROOT / source).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / source, app_dir / target, ignore=ignore)
        else:
            shutil.copy(ROOT / source, app_dir / target)


def check_files(app_dir: pathlib.Path, venv: pathlib.Path) -> None:
    """Every file of the packages must be installed, templates and styles among them.

    Raises:
      SystemExit: naming those that pyproject.toml leaves out.
    """
    (site_packages,) = venv.glob("lib/python*/site-packages")
    names = [
        pathlib.Path(installed) / path.relative_to(app_dir / name)
        for name, installed in FOLDERS.items()
        for path in (app_dir / name).rglob("*")
        if path.is_file()
    ]
    if missing := [str(name) for name in names if not (site_packages / name).is_file()]:
        sys.exit(
            f"The wheel lacks {', '.join(missing)}; name their endings in pyproject.toml under "
            "[tool.setuptools.package-data]."
        )


def check_installed(entrypoint: list[str], environment: Mapping[str, str]) -> None:
    """Imports all of the project, and starts the steps' command, in an empty directory."""
    with tempfile.TemporaryDirectory() as empty:
        for command in (
            ["python", "-c", _IMPORT_ALL, "image_pipeline"],
            [*entrypoint, "--help"],
            ["image-pipeline", "--help"],
        ):
            done = subprocess.run(
                command, cwd=empty, env=environment, capture_output=True, text=True
            )
            # absl prints its help and ends with 1.
            if done.returncode != 0 and "--executor_class_path" not in done.stdout:
                sys.exit(f"{shlex.join(command)} failed:\n{done.stderr[-3000:]}")
            print(done.stdout if "-c" in command else f"starts: {shlex.join(command)}")


def make_environment(venv: pathlib.Path) -> dict[str, str]:
    """The variables of the image's commands: nothing of this checkout's environment."""
    # Where packages come from, and whom to trust, is this machine's affair.
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("HOME", "TMPDIR") or name.startswith(("PIP_", "UV_", "SSL_"))
    }
    return kept | {"PATH": f"{venv}/bin:{os.environ['PATH']}", "VIRTUAL_ENV": str(venv)}


def main() -> None:
    """Builds, checks and deletes."""
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        app_dir, venv = pathlib.Path(folder, "app"), pathlib.Path(folder, "venv")
        app_dir.mkdir()
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        environment = make_environment(venv)
        entrypoint: list[str] = []
        for name, rest in read_steps(DOCKERFILE.read_text()):
            step_s = time.monotonic()
            entrypoint = do_step(name, rest, app_dir, environment) or entrypoint
            print(f"{name} {rest}: {time.monotonic() - step_s:.0f} s", flush=True)
        check_files(app_dir, venv)
        shutil.rmtree(app_dir)
        check_installed(entrypoint, environment)
    print(f"The Dockerfile's steps work: {time.monotonic() - started_s:.0f} s.")


if __name__ == "__main__":
    main()
