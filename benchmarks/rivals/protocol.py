"""What every reader shares: its job, the timed epoch, and the check of what it read.

A reader is a module that is run by the Python of its own environment; so this file needs the
standard library and NumPy only. It makes a function that reads one epoch, and `serve` answers the
lines of standard input with lines of JSON: `go` reads an epoch against the clock, `check` reads one
and looks at every pixel.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import numpy as np

from rivals.usage import cpu_s, peak_mb

CROP_AREA, CROP_ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
# Of the shorter side, what the centre view keeps: 224 of 256 pixels.
CENTRE_FRACTION = 0.875
CIFAR_PAD_PX, CIFAR_CUTOUT_PX, CIFAR_DEGREES = 4, 8, 5
# A timed epoch looks at one pixel in so many a side, which proves delivery and costs nothing.
_SAMPLED = 32
_IDLE_CPU_S, _POLL_S, _MAX_POLLS = 0.004, 0.1, 50


@dataclasses.dataclass(frozen=True)
class Task:
    """What is read, and which view of it.

    Attributes:
      data: the data set's folder: "stored", "raw", "originals" or "cifar".
      training: random views in random order, else centre views.
      size_px: side of the view.
    """

    data: str
    training: bool
    size_px: int = 224


TASKS = {
    "train_jpeg": Task("stored", True),
    "train_raw": Task("raw", True),
    "originals_train": Task("originals", True),
    "val_jpeg": Task("stored", False),
    "val_raw": Task("raw", False),
    "originals_val": Task("originals", False),
    "cifar": Task("cifar", True, 32),
    "cifar_rotated": Task("cifar", True, 32),
}
JPEG_TASKS = tuple(name for name, task in TASKS.items() if task.data in ("stored", "originals"))
PHOTO_TASKS = tuple(name for name, task in TASKS.items() if task.data != "cifar")


@dataclasses.dataclass(frozen=True)
class Job:
    """One reader's task on this machine.

    Attributes:
      name: the task's name in `TASKS`.
      task: the task.
      data_dir: the data set's folder, as `data.py` makes it.
      batch_size: images a batch.
      threads: threads that may work.
      meta: the folder's `meta.json`: mean and std of each channel in grey levels, classes, graph.
      decoder: who decodes JPEGs, where a reader has the choice.
    """

    name: str
    task: Task
    data_dir: pathlib.Path
    batch_size: int
    threads: int
    meta: dict[str, Any]
    decoder: str = ""

    def load_records(self) -> np.ndarray:
        """The records: structured [images] of offset, length, height, width and label."""
        return np.load(self.data_dir / "records.npy")

    def map_payload(self) -> np.ndarray:
        """All records' stored bytes, mapped: uint8 [bytes]."""
        return np.memmap(self.data_dir / "payload.bin", np.uint8, "r")


# float32 [batch, height, width, 3] and int [batch]; both may be reused by the next batch.
Batch = tuple[np.ndarray, np.ndarray]
ReadEpoch = Callable[[], Iterator[Batch]]


def serve(make_reader: Callable[[Job], ReadEpoch], tasks: tuple[str, ...]) -> None:
    """Answers standard input until it ends.

    Args:
      make_reader: makes the function that reads one epoch.
      tasks: the names of the tasks that the reader knows.
    """
    answers = _claim_stdout()
    job = parse_job()
    if job.name not in tasks:
        print(json.dumps({"unsupported": job.name}), file=answers, flush=True)
        return
    imported_mb = peak_mb()
    read_epoch = make_reader(job)
    print(json.dumps({"ready": job.name, "imported_mb": imported_mb}), file=answers, flush=True)
    for line in sys.stdin:
        answer = check_epoch(read_epoch) if line.strip() == "check" else time_epoch(read_epoch)
        print(json.dumps({**answer, "peak_mb": peak_mb()}), file=answers, flush=True)


def parse_job() -> Job:
    """Reads the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--data", required=True, help="the folder of all data sets")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--decoder", default="")
    arguments = parser.parse_args()
    job = open_job(arguments.task, arguments.data, arguments.batch_size, arguments.threads)
    return dataclasses.replace(job, decoder=arguments.decoder)


def open_job(name: str, data: str, batch_size: int, threads: int) -> Job:
    """Finds a task's data set in the folder of all data sets."""
    data_dir = pathlib.Path(data, TASKS[name].data)
    meta = json.loads((data_dir / "meta.json").read_text())
    return Job(name, TASKS[name], data_dir, batch_size, threads, meta)


def packed_dir(data_dir: pathlib.Path, name: str) -> pathlib.Path:
    """Where `pack.py` writes a data set in a rival's own format."""
    return data_dir / f"as-{name}"


def _claim_stdout() -> TextIO:
    """Standard output for answers only: what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def time_epoch(read_epoch: ReadEpoch) -> dict[str, Any]:
    """Reads an epoch against the clock, touching a few pixels of every image."""
    labels, total, pixels = [], np.zeros(3), 0
    before, started = cpu_s(), time.perf_counter()
    for images, ids in read_epoch():
        labels.append(np.array(ids).reshape(-1))
        seen = np.asarray(images)[:, ::_SAMPLED, ::_SAMPLED]
        total += seen.sum(axis=(0, 1, 2), dtype=np.float64)
        pixels += seen.size // 3
    wall_s = time.perf_counter() - started
    used_s = _settled_cpu_s() - before
    counts = np.bincount(np.concatenate(labels)).tolist()
    sampled = (total / pixels).tolist()
    return {
        "images": sum(counts),
        "wall_s": wall_s,
        "cpu_s": used_s,
        "labels": counts,
        "mean": sampled,
    }


def _settled_cpu_s() -> float:
    """CPU seconds once the process is idle.

    A reader that works ahead starts an epoch with some of its batches done; the batches that it
    then does for the next epoch make up for them, if they are waited for.
    """
    used_s = cpu_s()
    for _ in range(_MAX_POLLS):
        time.sleep(_POLL_S)
        before, used_s = used_s, cpu_s()
        if used_s - before < _IDLE_CPU_S:
            break
    return used_s


def check_epoch(read_epoch: ReadEpoch) -> dict[str, Any]:
    """Reads an epoch and all its pixels: counts, mean and standard deviation, distinct views."""
    labels, total, squares, pixels = [], np.zeros(3), np.zeros(3), 0
    views = set()
    for images, ids in read_epoch():
        labels.append(np.array(ids).reshape(-1))
        for image in np.ascontiguousarray(images):
            views.add(zlib.crc32(image))
            flat = image.reshape(-1, 3).astype(np.float64)
            total += flat.sum(0)
            squares += (flat**2).sum(0)
            pixels += len(flat)
    counts = np.bincount(np.concatenate(labels)).tolist()
    mean = total / pixels
    std = np.sqrt(squares / pixels - mean**2)
    return {
        "images": sum(counts),
        "labels": counts,
        "mean": mean.tolist(),
        "std": std.tolist(),
        "distinct": len(views),
    }
