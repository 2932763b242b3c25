"""Runs every block of docs/interop.md with the frameworks themselves, and measures random access.

    python -m benchmarks.interop [--images FOLDER] [--build build/interop] [--write]

Makes five environments of released packages (10 GB, most of it PyTorch's CUDA libraries): PyTorch
and Grain, without TensorFlow; TFDS; Hugging
Face's datasets and Croissant; the Model Garden, which needs its own TensorFlow; and this
project's packages with JAX. Ingests class folders of images (drawn ones if no folder is given), and
runs the document's blocks one after the other, each where what it imports is. Then every framework
reads all records, and each must have the same image and class under the same name
(`read_all.py`). Last, records a second, of which --write keeps the table in the document.
Exits with 1 if a block fails, or what was read differs.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
from PIL import Image

from benchmarks.bench.environments import make_environment
from benchmarks.documents import write_into
from benchmarks.interop.environments import ENVIRONMENTS, find_environment

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "interop.md"
_HERE = "this project"


def draw_images(folder: pathlib.Path, each: int = 200) -> pathlib.Path:
    """Photos of two classes, JPEG, 240 x 320: noise that is smooth, so that decoding is work."""
    generator = np.random.default_rng(0)
    for channel, name in enumerate(("green", "red")):
        (folder / name).mkdir(parents=True)
        for number in range(each):
            small = generator.integers(0, 120, (30, 40, 3), np.uint8)
            small[..., 1 - channel] += 100
            image = Image.fromarray(small).resize((320, 240), Image.Resampling.BICUBIC)
            image.save(folder / name / f"{number:04d}.jpg", quality=90)
    return folder


def read_blocks() -> Iterator[tuple[int, str, str]]:
    """Line, language and text of each block of the document."""
    text = DOCUMENT.read_text()
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, found.start()) + 1, found[1], found[2]


def run_block(language: str, text: str, folder: pathlib.Path, pythons: dict[str, str]) -> str:
    """Runs a block where what it imports is; says where, and what it printed last."""
    if language == "bash":
        command, where = ["bash", "-c", f"set -euo pipefail\n{text}"], _HERE
    else:
        where = find_environment(text) or _HERE
        script = folder / "block.py"
        script.write_text(text)
        command = [pythons[where], "-W", "ignore", str(script)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=_environment())
    if done.returncode:
        raise RuntimeError(f"{where}:\n{done.stdout}{done.stderr}")
    return f"{where}: {(done.stdout.strip().splitlines() or [''])[-1][:90]}"


def read_all(how: str, python: str, data_dir: pathlib.Path) -> dict[str, object]:
    """What `read_all.py` says of one framework."""
    script = str(pathlib.Path(__file__).with_name("read_all.py"))
    command = [python, "-W", "ignore", script, how, str(data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment())
    if done.returncode:
        raise RuntimeError(f"{how}:\n{done.stdout}{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _environment() -> dict[str, str]:
    return os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}


READERS = {
    "numpy": "plain",
    "torch-fork": "plain",
    "torch-spawn": "plain",
    "grain": "plain",
    "tfds": "tfds",
    "garden": "garden",
}
SPEEDS = {
    "speed-stored": ("plain", '`random_access`, `decode="none"`, one thread'),
    "speed-pixels": ("plain", "`random_access`, decoded, one thread"),
    "speed-torch": ("plain", "`random_access` in a `DataLoader`, 2 processes, decoded"),
    "speed-tf-stored": (_HERE, "`TFRecordDataset`, in order, neither parsed nor decoded"),
    "speed-tf-pixels": (_HERE, "`TFRecordDataset`, in order, parsed and decoded in parallel"),
}


def measure(pythons: dict[str, str], data_dir: pathlib.Path) -> str:
    """The table of speeds, as Markdown."""
    rows = {label: read_all(how, pythons[env], data_dir) for how, (env, label) in SPEEDS.items()}
    first = next(iter(rows.values()))
    lines = [
        f"Images of {first['mean_bytes'] / 1e3:.0f} kB as JPEG, from the disk's cache, "
        f"{os.cpu_count()} cores; the best of three passes:",
        "",
        "| | records/s | CPU s/1,000 records |",
        "|---|---|---|",
    ]
    for label, figures in rows.items():
        cpu = "–" if figures["cpu_s_per_1000"] is None else f"{figures['cpu_s_per_1000']:.3f}"
        lines.append(f"| {label} | {figures['rate']:,.0f} | {cpu} |")
    return "\n".join(lines)


def main() -> None:
    """Makes, runs, compares and measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", help="class folders; drawn ones by default")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "interop")
    parser.add_argument("--write", action="store_true", help="the table, into the document")
    arguments = parser.parse_args()
    build_dir = arguments.build.resolve()
    pythons = {
        name: make_environment(environment, build_dir / name)
        for name, environment in ENVIRONMENTS.items()
    }
    pythons[_HERE] = sys.executable
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / ".venv").symlink_to(sys.prefix)
        if arguments.images:
            (folder / "photos").symlink_to(pathlib.Path(arguments.images).resolve())
        else:
            draw_images(folder / "photos")
        for line, language, text in read_blocks():
            try:
                print(f"interop.md:{line} {run_block(language, text, folder, pythons)}", flush=True)
            except RuntimeError as error:
                failed = True
                print(f"interop.md:{line} FAILED with {error}", flush=True)
        found = {h: read_all(h, pythons[e], folder / "shared") for h, e in READERS.items()}
        for how, what in found.items():
            is_same = what["digest"] == found["numpy"]["digest"]
            failed |= not is_same
            print(f"{how}: {what['records']} records, {'the same' if is_same else 'DIFFERENT'}")
        table = measure(pythons, folder / "shared")
    print(f"\n{table}")
    if arguments.write:
        write_into(DOCUMENT, "interop", table)
    sys.exit(failed)


if __name__ == "__main__":
    main()
