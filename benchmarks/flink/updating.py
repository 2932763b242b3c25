"""An update of a data set on Flink, beside a fresh ingest of its images on the local runner."""

import pathlib
import subprocess
import sys
import time
from collections.abc import Sequence

import cv2
import numpy as np

from benchmarks.flink.cluster import FlinkCluster
from benchmarks.flink.drawings import draw_images
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS

CHANGED = 8  # images that are added, removed and moved to the other class, each


def edit(images: pathlib.Path) -> None:
    """Removes images of both classes, moves others between them, and draws new ones."""
    cats, dogs = (sorted((images / name).iterdir()) for name in ("cat", "dog"))
    for path in (*cats[:CHANGED:2], *dogs[:CHANGED:2]):
        path.unlink()
    for number in range(CHANGED):
        cats[-1 - number].rename(images / "dog" / f"was-cat-{number}.png")
        pixels = np.random.default_rng(10**8 + number).integers(0, 256, (32, 32, 3), np.uint8)
        cv2.imwrite(str(images / "cat" / f"new-{number}.png"), pixels)


def call(*arguments: str) -> None:
    """Runs `image-pipeline` in a process of its own.

    Raises:
      RuntimeError: with the end of its messages, if it fails.
    """
    command = [sys.executable, "-c", "from image_pipeline.cli import main; main()", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{arguments[0]} failed:\n{done.stderr[-4000:]}")


def read_files(data: pathlib.Path) -> dict[str, bytes]:
    """A data set's files by their paths, but for what is hidden: times, logs and old versions."""
    files = {str(path.relative_to(data)): path for path in data.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if "/." not in f"/{name}"}


def check_update(folder: pathlib.Path, cluster: FlinkCluster) -> bool:
    """Whether an update on Flink has the files of a fresh ingest here; prints what it took.

    Args:
      folder: an empty one, for all that is written.
      cluster: where the data set is made and updated, with parallelism 2.
    """
    images, data, fresh = draw_images(folder / "images"), folder / "data", folder / "fresh"
    cluster.fill()
    on_flink: Sequence[str] = ("--", *cluster.beam_args(2))
    call("ingest", "--images", str(images), "--output", str(data), "--quiet", *on_flink)
    edit(images)
    before, started = cluster.last_job()["jid"], time.monotonic()
    call("update", str(data), "--quiet", *on_flink)
    took = time.monotonic() - started
    ran = cluster.last_job()["jid"] != before
    call(
        "ingest", "--images", str(images), "--output", str(fresh), "--quiet", "--", *LOCAL_BEAM_ARGS
    )
    is_same = ran and read_files(data) == read_files(fresh)
    verdict = "identical" if is_same else "DIFFERENT" if ran else "NOT RUN ON FLINK"
    print(f"  an update on Flink, parallelism 2: {took:.1f} s; {verdict}", flush=True)
    return is_same
