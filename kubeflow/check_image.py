"""Does the Dockerfile's steps where there is no Docker (`image_steps.py`), and tries the result.

Every module of the project must come from what was installed, with the checkout out of sight; the
commands of a compiled pipeline must start; Beam's boot must start a worker that does an ingest; and
none of them may write beside the code, where the image's user cannot.
It takes 4 GB, with CUDA's libraries 9.
"""

import argparse
import contextlib
import json
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import yaml
from image_steps import Image, do_stages

COMPILE = pathlib.Path(__file__).with_name("compile.py")
FOLDERS = {"components": "image_pipeline/components", "pipeline": "image_pipeline"}
BOOT = "opt/apache/beam/boot"
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
_LOAD_CUDA = """
import ctypes, pathlib, sys

(folder,) = pathlib.Path(sys.prefix).glob("lib/python*/site-packages/nvidia")
for name in ("cudart", "nvJitLink", "cublasLt", "cublas", "cudnn", "cufft", "cusparse", "cusolver"):
    (path,) = folder.glob(f"*/lib/lib{name}.so.*")
    ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    print(f"loads: {path.name}")
"""


def check_files(build_dir: pathlib.Path, venv: pathlib.Path) -> None:
    """Every file of the packages must be installed, templates and styles among them.

    Raises:
      SystemExit: naming those that pyproject.toml leaves out.
    """
    (site_packages,) = venv.glob("lib/python*/site-packages")
    names = [
        pathlib.Path(installed) / path.relative_to(build_dir / name)
        for name, installed in FOLDERS.items()
        for path in (build_dir / name).rglob("*")
        if path.is_file()
    ]
    if missing := [str(name) for name in names if not (site_packages / name).is_file()]:
        sys.exit(
            f"The wheel lacks {', '.join(missing)}; name their endings in pyproject.toml under "
            "[tool.setuptools.package-data]."
        )


def ask(command: list[str], image: Image) -> str:
    """What a command says in an empty folder; exits with what it complains of, if it fails."""
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            command, cwd=empty, env=image.environment, capture_output=True, text=True
        )
    # absl prints its help and ends with 1.
    if done.returncode != 0 and "--executor_class_path" not in done.stdout:
        sys.exit(f"{shlex.join(command)} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def check_commands(image: Image) -> None:
    """Imports all of the project, and starts every command that a compiled pipeline names."""
    print(ask(["python", "-c", _IMPORT_ALL, "image_pipeline"], image))
    pipeline = image.folder / "tmp" / "pipeline.yaml"
    places = ["--images=gs://i", "--root=gs://r", "--push=gs://p", "--image=registry/name:tag"]
    ask(["python", str(COMPILE), *places, f"--output={pipeline}"], image)
    for command in [["image-pipeline"], *list_commands(pipeline.read_text())]:
        ask([*command, "--help"], image)
        print(f"starts: {shlex.join(command)}")


def list_commands(compiled: str) -> list[list[str]]:
    """The different commands of a compiled pipeline's steps.

    Raises:
      SystemExit: for a step that names none: its container would start the image's ENTRYPOINT.
    """
    spec, *_ = yaml.safe_load_all(compiled)
    commands = {}
    for name, executor in spec["deploymentSpec"]["executors"].items():
        if not (command := executor["container"].get("command")):
            sys.exit(f"{name} names no command: its container would start Beam's boot.")
        commands[tuple(command)] = list(command)
    return list(commands.values())


def check_untouched(image: Image, built_s: float) -> None:
    """Nothing beside the code may be written by what ran: the image's user could not.

    Raises:
      SystemExit: naming some of what was.
    """
    written = [
        path for path in (image.folder / "opt").rglob("*") if path.lstat().st_mtime > built_s
    ]
    if written:
        named = ", ".join(str(path.relative_to(image.folder)) for path in written[:5])
        sys.exit(f"Was written by what ran, though the image's user may not: {named}.")


@contextlib.contextmanager
def start_pool(image: Image) -> Iterator[int]:
    """What `boot --worker_pool` runs, on a port of its own; yields the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    module = "apache_beam.runners.worker.worker_pool_main"
    given = [f"--service_port={port}", f"--container_executable={image.folder / BOOT}"]
    command = ["python", "-m", module, *given]
    pool = subprocess.Popen(command, cwd=image.working_dir, env=image.environment)
    try:
        until_s = time.monotonic() + 120
        while time.monotonic() < until_s and pool.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.2)
        yield port
    finally:
        pool.terminate()
        pool.wait()


def check_worker(image: Image) -> None:
    """Has boot start a worker as Flink's and Spark's pools do, and ingests with it."""
    import cv2
    import numpy as np

    images = image.folder / "tmp" / "images" / "class"
    images.mkdir(parents=True)
    for value in range(3):
        cv2.imwrite(str(images / f"{value}.png"), np.full((8, 8, 3), value, np.uint8))
    with start_pool(image) as port:
        places = ["--images", str(images.parent), "--output", str(images.parents[1] / "data")]
        places += ["--set", "ingest.splits={train: 1}"]
        flags = ["--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=EXTERNAL"]
        pool = f"--environment_config=127.0.0.1:{port}"
        said = ask(["image-pipeline", "ingest", *places, "--json", "--", *flags, pool], image)
    if json.loads(said)["written"] != 3:
        sys.exit(f"A worker that boot started has not written three images: {said}")
    print("works: a worker that boot starts")


def main() -> None:
    """Builds, checks and deletes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", action="store_true", help="with CUDA's libraries, too")
    arguments = parser.parse_args()
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        image = do_stages(pathlib.Path(folder), arguments.gpu)
        check_files(image.folder / "opt" / "build", image.folder / "opt" / "venv")
        shutil.rmtree(image.folder / "opt" / "build")
        shutil.rmtree(image.folder / "opt" / "project")
        size = sum(path.lstat().st_size for path in image.folder.glob("opt/venv/**/*"))
        print(f"/opt/venv: {size / 1e9:.1f} GB", flush=True)
        built_s = time.time()
        check_commands(image)
        if (image.folder / BOOT).exists():
            check_worker(image)
        check_untouched(image, built_s)
        if arguments.gpu:
            print(ask(["python", "-c", _LOAD_CUDA], image))
    print(f"The Dockerfile's steps work: {time.monotonic() - started_s:.0f} s.")


if __name__ == "__main__":
    main()
