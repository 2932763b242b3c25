"""Writing data sets: ingest beside other people's writers, doing the same job on the same photos.

    python benchmarks/write.py --images FOLDER [--copies 1] [--repeats 3] [--writers ours tfds …]

FOLDER holds photos, in any layout. Every writer decodes each photo, shrinks its shorter side to
256 px by area, encodes it as JPEG with quality 90 (img2dataset and tf.Transform by their own code,
the others by OpenCV) and writes its own format, on every core where it can. Ours (`run_ingest`)
checks, hashes, splits, shuffles and indexes besides. Each run is a process of its own, in the
writer's environment (made under build/bench on first use); the clock starts after its imports, CPU
seconds are those of all its processes. What was written is counted by the format's own reader. One
that does not install, or loses a photo, is said.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from writers.run import WRITERS

from bench.environments import NotInstalledError, make_environment
from bench.folders import photos
from bench.raw import ROOT, add_json_argument, write_raw
from rivals.install import BENCHMARKS, QUIET
from rivals.registry import ENVIRONMENTS


def copy_photos(source: pathlib.Path, target: pathlib.Path, copies: int) -> int:
    """Repeats the photos for volume, in one folder; returns how many there are."""
    target.mkdir()
    photos = sorted(path for path in source.rglob("*") if path.is_file())
    for number, photo in enumerate(photos):
        for copy in range(copies):
            shutil.copyfile(photo, target / f"{copy}-{number:06d}{photo.suffix.lower()}")
    return copies * len(photos)


def find_python(name: str, arguments: argparse.Namespace) -> str:
    """The Python of a writer's environment, which is made if it is missing."""
    environment = WRITERS[name].environment
    if environment is None:
        return sys.executable
    if environment == "ffcv" and arguments.python_ffcv:
        return arguments.python_ffcv
    return make_environment(ENVIRONMENTS[environment], arguments.build / environment)


def run_writer(name: str, python: str, photos: pathlib.Path, target: pathlib.Path) -> Any:
    """Runs it once; returns its figures, or the text of what went wrong."""
    target.mkdir()
    command = [python, "-W", "ignore", "-m", "writers.run", name, str(photos), str(target)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=BENCHMARKS, env=os.environ | QUIET
    )
    shutil.rmtree(target)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout.splitlines()[-1])


def run_all(arguments: argparse.Namespace, scratch: pathlib.Path) -> dict[str, Any]:
    """All writers' rounds, taking turns; and what is wrong with which."""
    images = copy_photos(pathlib.Path(arguments.images), scratch / "photos", arguments.copies)
    pythons, left_out = {}, {}
    for name in arguments.writers:
        try:
            pythons[name] = find_python(name, arguments)
        except NotInstalledError as error:
            left_out[name] = str(error).splitlines()[-1]
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
    for _ in range(arguments.repeats):
        for name in [name for name in pythons if name not in left_out]:
            figures = run_writer(name, pythons[name], scratch / "photos", scratch / "target")
            if isinstance(figures, str):
                left_out[name] = figures
            elif figures["images"] != images:
                left_out[name] = f"{figures['images']} of {images} photos are in what it wrote"
            else:
                rounds[name].append(figures)
    kept = {name: figures for name, figures in rounds.items() if name not in left_out}
    return {"images": images, "writers": kept, "left_out": left_out}


def report(results: dict[str, Any]) -> None:
    """A line a writer."""
    print(f"{results['images']} photos, medians of the rounds")
    print(f"  {'':<14}{'images/s':>10}{'CPU s/1,000':>13}{'MB':>8}")
    for name, rounds in results["writers"].items():
        rate = statistics.median(figures["images"] / figures["wall_s"] for figures in rounds)
        cpu = statistics.median(1e3 * figures["cpu_s"] / figures["images"] for figures in rounds)
        print(f"  {name:<14}{rate:>10,.0f}{cpu:>13.2f}{rounds[0]['bytes'] / 1e6:>8,.1f}")
    for name, reason in results["left_out"].items():
        print(f"  {name:<14}left out: {reason}")


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=photos, required=True, help="a folder of photos")
    parser.add_argument("--copies", type=int, default=1, help="of each photo, for volume")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--writers", nargs="+", choices=WRITERS, default=list(WRITERS))
    parser.add_argument("--python-ffcv", help="of an environment that is there already")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "bench")
    add_json_argument(parser)
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        results = run_all(arguments, pathlib.Path(scratch))
    report(results)
    write_raw(arguments.json, "write", arguments, results)


if __name__ == "__main__":
    main()
