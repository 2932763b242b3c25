"""One recipe and one model, fed in three ways, from files to accuracy; and a slow input's floors.

    python -m benchmarks.end_to_end --images CIFAR [--epochs 3] [--step-ms 20] [--smoke]
        [--write docs/end-to-end.md] [--only recipe | slow] [--json FILE]

CIFAR has `train/<class>/<file>` and `test/<class>/<file>`, JPEG or PNG. The recipe is that of
well-known CIFAR-10 threads: reflect-pad by 4, random crop of 32, flip, rotation by up to 5 degrees,
cutout of 8 x 8, normalise. The ways (`feeds.py`): as those threads have it, tf.data as documented,
and this project, whose ingest and analysis are timed on their own since they happen once. Model,
weights at the start, batches and steps are the same; the order of records and the random draws are
each way's own. Every way has its own process.

Each is timed twice. With the model, on the processor, where it takes turns with the input for the
cores: so total time can fall at most by what the input costs. And with a step that only waits, as
for an accelerator (--step-ms), where all that the input takes beyond it is waiting.

Before anything is timed, an epoch is read and checked: every file once, no other, with its class,
and images whose mean and standard deviation are those of the plain pixels. In timed epochs, labels
are counted. The last table (`slow_input.py`): 2 s to prepare a batch, 1 s a step.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.bench.raw import add_json_argument, write_raw
from benchmarks.documents import write_into
from benchmarks.end_to_end import slow_input
from benchmarks.end_to_end.feeds import FEEDS

NAMES = {
    "threads": "as the threads have it",
    "documented": "tf.data as documented",
    "ours": "this project",
}


def run_recipe(arguments: argparse.Namespace) -> str:
    """The tables of the recipe, as Markdown; the raw results go where the command line says."""
    measured = {}
    for feed in FEEDS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.end_to_end.measure", feed]
            command += ["--images", arguments.images, "--work", folder]
            for name in ("epochs", "batch_size", "step_ms", "seed", "limit"):
                command += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
            print(f"{NAMES[feed]} …", file=sys.stderr, flush=True)
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            measured[feed] = json.loads(done.stdout.splitlines()[-1])
    write_raw(arguments.json, "end_to_end", arguments, measured)
    first = next(iter(measured.values()))
    images, steps = f"{first['images']:,}", f"{first['steps']:,}"
    return "\n".join(
        [
            f"{arguments.epochs} epochs of {images} images in {steps} steps, {os.cpu_count()} "
            "cores. Once: ingest and analysis, with their imports.",
            "",
            "**The model, on the processor**",
            "",
            *_tabulate(measured, "model"),
            "",
            f"**A step of {arguments.step_ms:g} ms elsewhere, as on an accelerator** "
            "(simulated: it only waits)",
            "",
            *_tabulate(measured, "device"),
        ]
    )


def _tabulate(measured: dict[str, dict[str, Any]], kind: str) -> list[str]:
    shows_accuracy = kind == "model"
    lines = [
        "| | once | total | waiting, first epoch | waiting, later epochs | CPU |"
        + (" accuracy |" if shows_accuracy else ""),
        "|---|---|---|---|---|---|" + ("---|" if shows_accuracy else ""),
    ]
    for feed, figures in measured.items():
        epochs = figures[kind]
        total = sum(epoch["total_s"] for epoch in epochs)
        cpu = sum(epoch["cpu_s"] for epoch in epochs)
        later = statistics.median(epoch["wait_s"] for epoch in epochs[1:] or epochs)
        once = f"{figures['once_s']:.1f} s" if figures["once_s"] else "–"
        line = f"| {NAMES[feed]} | {once} | {total:.1f} s | {epochs[0]['wait_s']:.2f} s "
        line += f"| {later:.2f} s | {cpu:.0f} s |"
        lines.append(line + (f" {figures['accuracy']:.1%} |" if shows_accuracy else ""))
    return lines


def main() -> None:
    """Measures and prints."""
    arguments = parse_arguments()
    parts = {
        "recipe": lambda: run_recipe(arguments),
        "slow": lambda: slow_input.run(arguments.prepare_s, arguments.slow_step_s, arguments.slow),
    }
    for name, measure in parts.items():
        if arguments.only in (None, name):
            table = measure()
            print(f"\n{table}", flush=True)
            if arguments.write:
                write_into(pathlib.Path(arguments.write), name, table)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", help="CIFAR-10 as files: train/<class>/ and test/<class>/")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=125)
    parser.add_argument("--step-ms", type=float, default=20, help="of the simulated accelerator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=0, help="images of each split; 0: all")
    parser.add_argument("--slow", type=int, default=20, help="batches of the slow input")
    parser.add_argument("--prepare-s", type=float, default=2.0)
    parser.add_argument("--slow-step-s", type=float, default=1.0)
    parser.add_argument("--smoke", action="store_true", help="everything in small")
    parser.add_argument("--write", help="a document whose tables are replaced")
    parser.add_argument("--only", choices=["recipe", "slow"])
    add_json_argument(parser)
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.epochs, arguments.batch_size, arguments.step_ms = 2, 20, 5
        arguments.limit, arguments.slow = 100, 4
        arguments.prepare_s, arguments.slow_step_s = 0.2, 0.1
    if arguments.images is None and arguments.only != "slow":
        parser.error("--images must name a folder with train/<class>/ and test/<class>/")
    return arguments


if __name__ == "__main__":
    main()
