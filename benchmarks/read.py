"""This project's `input_fn` beside other loaders and a bare loop, on the same stored bytes.

    python benchmarks/read.py --images PHOTOS --cifar CIFAR/train
        [--readers all] [--tasks train_jpeg …] [--records 2048] [--repeats 5] [--keep DIR]
        [--python-ffcv $FFCV_VENV/bin/python] [--python-dali $DALI_VENV/bin/python]

All read the same stored bytes (JPEG quality 90 or raw pixels, shorter side 256 px; the original
bytes; 32-px pixels) and give float32 batches, cropped, flipped and normalised alike;
`benchmarks/README.md` says what each of them does otherwise. Rivals get environments of their own
under build/bench, made on first use; one that does not install is left out, and it says why. Every
reader has its own process, in which one epoch is read first to compile, to warm up, and to be
checked against a plain NumPy and OpenCV reference: each record once, means and standard deviations,
distinct views. Then all of a task's readers take turns, an epoch at a time; a reader with a fault
is shown with it. CPU seconds are user + system of all the process's threads and of the processes
that it starts; they are the figure to compare, since wall time swings on a shared machine. Ratios
are medians of each round's pairs.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from bench.folders import classes, photos
from bench.raw import ROOT, add_json_argument, write_raw
from rivals import protocol
from rivals.data import make_data
from rivals.install import BENCHMARKS, QUIET, find_pythons, write_packs
from rivals.reference import Reference, make_reference
from rivals.registry import READERS

# Who reads unless --readers says otherwise: the nearest rivals, and the limit.
_NEAREST = ["ours", "ffcv", "dali", "tf.data", "bare loop"]
# Ours / the other's CPU seconds an image, at most.
GOALS = {
    "train_jpeg": {"ffcv": 0.80, "tf.data": 0.45, "bare loop": 1.35},
    "train_raw": {"ffcv": 0.50},
    "originals_train": {"ffcv": 1.0},
    "val_jpeg": {"ffcv": 1.0},
    "val_raw": {"ffcv": 1.0},
    "originals_val": {"ffcv": 1.0},
    "cifar": {"ffcv": 0.45, "tf.data": 0.08},
    "cifar_rotated": {},
}


class Reader:
    """A reader's process, from its start to its end.

    Attributes:
      name: its name in `READERS`.
      start: its first answer; None if it ended before that.
      faults: what is wrong with what it read.
      rounds: its answers of the timed epochs.
    """

    def __init__(self, name: str, python: str, task: str, arguments: argparse.Namespace) -> None:
        """Starts it."""
        self.name, self._log = name, pathlib.Path(arguments.keep, f"{name}.log")
        self.faults: list[str] = []
        self.rounds: list[dict[str, Any]] = []
        is_small = protocol.TASKS[task].data == "cifar"
        size = arguments.cifar_batch_size if is_small else arguments.batch_size
        rival = READERS[name]
        command = [python, "-W", "ignore", "-m", rival.module, "--task", task, *rival.arguments]
        command += ["--data", arguments.keep, "--batch-size", str(size)]
        command += ["--threads", str(arguments.threads)]
        pipe = subprocess.PIPE
        with open(self._log, "w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=log,
                text=True,
                cwd=BENCHMARKS,
                env=os.environ | QUIET,
            )
        self.start = self._answer()

    def check(self, reference: Reference) -> None:
        """Has an epoch read of which every pixel is looked at."""
        answer = self._ask("check")
        self.faults += reference.list_faults(answer) if answer else []

    def time_epoch(self, reference: Reference) -> None:
        """Has an epoch read against the clock."""
        answer = self._ask("go")
        if answer:
            self.rounds.append(answer)
            if answer["labels"] != reference.labels:
                self.faults.append("labels differ in a timed epoch")

    def _ask(self, command: str) -> dict[str, Any] | None:
        if self._process.poll() is not None:
            return None
        assert self._process.stdin is not None
        print(command, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any] | None:
        """The next answer; None, and a fault, if the process ends instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._process.wait()
        said = self._log.read_text().strip().splitlines()
        self.faults.append(f"it ended: {said[-1] if said else 'without a word'}")
        self.rounds.clear()  # A ratio's pairs are of whole sets of rounds.
        return None

    def list_figures(self) -> dict[str, Any]:
        """What is kept of it: images, seconds and peak memory of every round."""
        names = ("images", "wall_s", "cpu_s", "peak_mb")
        rounds = [{name: answer[name] for name in names} for answer in self.rounds]
        imported_mb = self.start["imported_mb"] if self.start else None
        return {"imported_mb": imported_mb, "faults": self.faults, "rounds": rounds}

    def close(self) -> None:
        """Lets the process end."""
        if self._process.poll() is None:
            self._process.communicate()


def run_task(
    task: str, pythons: dict[str, str], arguments: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Checks and times all readers of one task, and prints the table; returns what it says."""
    reference = make_reference(protocol.open_job(task, arguments.keep, 1, 1))
    readers = []
    with contextlib.ExitStack() as stack:
        for name, python in pythons.items():
            reader = Reader(name, python, task, arguments)
            stack.callback(reader.close)
            if not reader.start or "unsupported" not in reader.start:
                reader.check(reference)
                readers.append(reader)
        for _ in range(arguments.repeats):
            for reader in readers:
                reader.time_epoch(reference)
    report(task, readers)
    return {reader.name: reader.list_figures() for reader in readers}


def report(task: str, readers: list[Reader]) -> None:
    """A line a reader; then ours against each other one, and the goals."""
    print(f"\n{task}, medians of the rounds")
    print(
        f"  {'':<20}{'CPU s/1,000':>13}{'least':>9}{'images/s':>11}{'peak MiB':>10}{'imports':>9}"
    )
    for reader in readers:
        said = "; ".join(reader.faults) or "checked"
        print(f"  {reader.name:<20}{_describe_rounds(reader)}  {said}")
    ours = [reader for reader in readers if reader.name == "ours" and reader.rounds]
    for reader in readers:
        if ours and reader.rounds and reader is not ours[0]:
            _print_ratio(task, ours[0], reader)


def _describe_rounds(reader: Reader) -> str:
    if not reader.rounds or not reader.start:
        return ""
    cpu = [1e3 * answer["cpu_s"] / answer["images"] for answer in reader.rounds]
    rate = statistics.median(answer["images"] / answer["wall_s"] for answer in reader.rounds)
    return (
        f"{statistics.median(cpu):>13.4f}{min(cpu):>9.4f}{rate:>11,.0f}"
        f"{reader.rounds[-1]['peak_mb']:>10,.0f}{reader.start['imported_mb']:>9,.0f}"
    )


def _print_ratio(task: str, ours: Reader, other: Reader) -> None:
    pairs = zip(ours.rounds, other.rounds, strict=True)
    ratio = statistics.median(mine["cpu_s"] / theirs["cpu_s"] for mine, theirs in pairs)
    goal = GOALS[task].get(other.name)
    verdict = ""
    if goal is not None:
        met = "met" if ratio <= goal and not ours.faults else "missed"
        verdict = f"  (goal: at most {goal:.2f}, {met})"
    print(f"  ours / {other.name + ':':<21}{ratio:>6.2f} of its CPU time{verdict}")


def main() -> None:
    """Runs and prints."""
    arguments = parse_arguments()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with contextlib.ExitStack() as stack:
        if arguments.keep is None:
            arguments.keep = stack.enter_context(tempfile.TemporaryDirectory())
        arguments.keep = str(pathlib.Path(arguments.keep).resolve())
        pythons, left_out = find_pythons(arguments)
        make_data(
            pathlib.Path(arguments.keep),
            arguments.images,
            arguments.cifar,
            arguments.records,
            arguments.cifar_records,
        )
        write_packs(pythons, arguments.tasks, arguments.keep)
        print(f"{arguments.threads} threads, {len(os.sched_getaffinity(0))} cores")
        tasks = {task: run_task(task, pythons, arguments) for task in arguments.tasks}
    write_raw(arguments.json, "read", arguments, {"tasks": tasks, "left_out": left_out})


def parse_arguments() -> argparse.Namespace:
    """Reads the command line, and leaves out tasks that have no data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=photos, help="a folder of photos")
    parser.add_argument("--cifar", type=classes, help="a folder of class folders of 32-px images")
    parser.add_argument("--records", type=int, default=2048, help="photos; repeated to be so many")
    parser.add_argument("--cifar-records", type=int, default=50_000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--cifar-batch-size", type=int, default=512)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tasks", nargs="+", choices=protocol.TASKS, default=list(protocol.TASKS))
    parser.add_argument("--readers", nargs="+", choices=["all", *READERS], default=_NEAREST)
    parser.add_argument("--python-ffcv", help="of an environment that is there already")
    parser.add_argument("--python-dali", help="likewise")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "bench")
    parser.add_argument("--keep", help="a folder for the data sets, used again if it has them")
    add_json_argument(parser)
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    if "all" in arguments.readers:
        arguments.readers = list(READERS)
    if arguments.records % arguments.batch_size:
        # DALI reads on into the next epoch: only whole batches can be compared.
        parser.error(f"--records must be a multiple of --batch-size {arguments.batch_size}")
    has_data = {task: arguments.cifar is not None for task in ("cifar", "cifar_rotated")}
    arguments.tasks = [
        task for task in arguments.tasks if has_data.get(task, arguments.images is not None)
    ]
    if not arguments.tasks:
        parser.error("--images or --cifar is needed, as the tasks want")
    return arguments


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
