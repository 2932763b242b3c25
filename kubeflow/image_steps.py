"""The Dockerfile's steps, done in a folder, where there is no Docker.

All stages share one folder, which stands for the root of their disks: COPY, RUN, ENV and WORKDIR
are done as they stand, with /opt, /tmp and the like below it, and with the downloads kept. Beam's
boot is built from its Go module, since its image cannot be pulled.
"""

import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import string
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

ROOT = pathlib.Path(__file__).parents[1]
DOCKERFILE = ROOT / "kubeflow" / "Dockerfile"
CUDA_STAGES = ("cuda", "gpu")
STEP_TIMEOUT_S = 1800
_PATH = re.compile(r"(?<![\w.$-])(?=/(?:opt|tmp|gcs|s3|minio)\b)")
# Not USER, either: here all is done by whoever asks for it.
_NOT_DONE = ("LABEL", "ENTRYPOINT", "USER")


@dataclasses.dataclass
class Image:
    """The folder that stands for the stages' disks.

    Attributes:
      folder: stands for /.
      environment: variables of a stage's commands.
      working_dir: where they are run.
    """

    folder: pathlib.Path
    environment: dict[str, str]
    working_dir: pathlib.Path

    def place(self, text: str) -> str:
        """The text with the image's absolute paths below the folder."""
        return _PATH.sub(str(self.folder), text)


def read_stages(text: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """The stages of a Dockerfile: name ("" if it has none), what they begin from, instructions.

    An instruction is its name in capitals and the rest of the line.
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    steps = [line.strip().partition(" ")[::2] for line in joined if line.strip()]
    stages: list[tuple[str, str, list[tuple[str, str]]]] = []
    for instruction, rest in steps:
        if instruction.upper() == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append((name.strip(), base.strip(), []))
        else:
            stages[-1][2].append((instruction.upper(), rest.strip()))
    yield from stages


def do_step(instruction: str, rest: str, image: Image) -> None:
    """Does one instruction.

    Raises:
      ValueError: for an instruction that this does not know.
      subprocess.CalledProcessError: if the command fails.
    """
    if instruction == "COPY":
        copy(rest, image)
    elif instruction == "RUN":
        command = re.sub(r"--mount=\S+|--no-cache-dir\b", "", rest)
        run(image.place(command), image)
    elif instruction == "ENV":
        for word in shlex.split(rest):
            name, _, value = word.partition("=")
            value = string.Template(image.place(value)).substitute(image.environment)
            image.environment[name] = value
    elif instruction == "WORKDIR":
        image.working_dir = pathlib.Path(image.place(rest))
        image.working_dir.mkdir(parents=True, exist_ok=True)
    elif instruction not in _NOT_DONE:
        raise ValueError(f"{DOCKERFILE}: this script knows no {instruction}; teach it in do_step.")


def run(command: str, image: Image) -> None:
    """Runs a command as a stage does."""
    subprocess.run(
        command,
        shell=True,
        check=True,
        cwd=image.working_dir,
        env=image.environment,
        timeout=STEP_TIMEOUT_S,
    )


def copy(rest: str, image: Image) -> None:
    """COPY: from the repository, or from another stage, which here has the same disk."""
    words = rest.split()
    stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else None
    *sources, target = words
    to = pathlib.Path(image.working_dir, image.place(target))
    if stage == "beam":
        build_boot(to)
        return
    for source in sources:
        path = ROOT / source if stage is None else pathlib.Path(image.place(source))
        if path == to:
            continue
        if path.is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, to, ignore=ignore, dirs_exist_ok=True, symlinks=True)
        else:
            shutil.copy(path, to)


def build_boot(target: pathlib.Path) -> None:
    """Builds Beam's boot, of the version that the lock has, if Go is there."""
    if shutil.which("go") is None:
        print("No go on the PATH: Beam's boot is not built, and starts no worker.")
        return
    lock = (ROOT / "requirements" / "image.lock").read_text()
    (version,) = re.findall(r"^apache-beam==(\S+)", lock, re.MULTILINE)
    module = f"github.com/apache/beam/sdks/v2/python/container@v{version}"
    environment = os.environ | {"GOBIN": str(target)}
    subprocess.run(["go", "install", module], check=True, env=environment, timeout=STEP_TIMEOUT_S)
    (target / "container").rename(target / "boot")


def base_environment(system: pathlib.Path) -> dict[str, str]:
    """The variables of a base image: nothing of this checkout's environment."""
    # Where packages come from, and whom to trust, is this machine's affair.
    names = ("HOME", "TMPDIR")
    prefixes = ("PIP_", "UV_", "SSL_")
    kept = {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
    kept |= {name: os.environ[name] for name in names if name in os.environ}
    return kept | {"PATH": f"{system}/bin:{os.environ['PATH']}"}


def do_stages(folder: pathlib.Path, with_cuda: bool) -> Image:
    """Does all stages, one after the other; returns the last one."""
    subprocess.run([sys.executable, "-m", "venv", folder / "usr"], check=True)
    environments: dict[str, Mapping[str, str]] = {}
    image = Image(folder, {}, folder)
    for name, base, steps in read_stages(DOCKERFILE.read_text()):
        if name in CUDA_STAGES and not with_cuda:
            continue
        image.environment = dict(environments.get(base) or base_environment(folder / "usr"))
        for instruction, rest in steps:
            started_s = time.monotonic()
            do_step(instruction, rest, image)
            print(f"{instruction} {rest}: {time.monotonic() - started_s:.0f} s", flush=True)
        environments[name] = image.environment
    return image
