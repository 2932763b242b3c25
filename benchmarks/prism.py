"""Prism, Beam's own runner in Go, built from Beam's Go module."""

import os
import pathlib
import shutil
import subprocess

import apache_beam

from benchmarks.jars import NotAvailable

# The module's tag is the version of Beam in the lock.
MODULE = f"github.com/apache/beam/sdks/v2/go/cmd/prism@v{apache_beam.__version__}"


def fetch_prism(build_dir: pathlib.Path, timeout_s: float = 540) -> pathlib.Path:
    """Builds Prism, unless it is there. Go checks what it downloads by its own list of checksums.

    Args:
      build_dir: where to.
      timeout_s: most seconds that this may take.

    Returns:
      What Beam's `--prism_location` takes.

    Raises:
      NotAvailable: if Go is missing, or Prism cannot be built.
    """
    if shutil.which("go") is None:
        raise NotAvailable("Prism needs go, which is not on the PATH; install it.")
    program = build_dir.resolve() / "prism"
    if program.exists():
        return program
    environment = os.environ | {"GOBIN": str(program.parent)}
    try:
        done = subprocess.run(
            ["go", "install", MODULE],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise NotAvailable(f"Go did not build {MODULE} within {timeout_s:g} s.") from error
    if done.returncode:
        raise NotAvailable(f"Go cannot build {MODULE}: {done.stderr.strip().splitlines()[-1]}")
    return program
