"""All benchmarks, and the page of their results.

    python -m benchmarks.bench run --images PHOTOS --cifar CIFAR [--only read write …]
    python -m benchmarks.bench smoke --images PHOTOS
    python -m benchmarks.bench page

`run` measures everything, writes the raw results to benchmarks/results/ and makes RESULTS.md of
them; PHOTOS are in any layout, CIFAR has train/<class>/<file> and test/<class>/<file>. `smoke`
reads and writes a little, in minutes, keeps nothing, and prints its ratios beside the committed.
`page` makes RESULTS.md again from the raw results that are there.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

from benchmarks.bench.figures import list_ratios
from benchmarks.bench.folders import photos, splits
from benchmarks.bench.page import BENCHMARKS, PAGE, RESULTS_DIR, SECTIONS, load_raw, write_page
from benchmarks.bench.raw import ROOT

_BUILD = ROOT / "build" / "bench"
# Minutes on two cores with 400 photos and CIFAR-10, environments not counted (another 10).
_MINUTES = {
    "read": 25,
    "write": 5,
    "ingest": 2,
    "analysis": 10,
    "growth": 8,
    "order": 1,
    "end_to_end": 15,
}
# Read in a smoke run if they are there: the nearest, and what needs no environment of its own.
_SMOKE_READERS = ("ours", "bare loop", "tf.data", "ffcv", "dali")
_SMOKE_TASKS = ("train_jpeg", "originals_val")


def list_commands(images: str | None, cifar: str | None) -> dict[str, list[str]]:
    """The command of every benchmark that has its data, without its --json."""
    of_photos = ["--images", images] if images else []
    small = ["--cifar", f"{cifar}/train"] if cifar else []
    commands = {"order": _script("order.py")}
    if of_photos or small:
        keep = ["--keep", str(_BUILD / "data"), "--readers", "all"]
        keep += ["--records", "1280", "--repeats", "3"]
        commands["read"] = _script("read.py", *of_photos, *small, *keep)
    if of_photos:
        scripts = {"write": "write.py", "ingest": "ingest.py", "growth": "growth.py"}
        scripts["analysis"] = "transform.py"
        commands |= {name: _script(script, *of_photos) for name, script in scripts.items()}
        # A slope over a few hundred photos is mostly noise.
        commands["analysis"] += ["--copies", "20"]
    if cifar:
        module = [sys.executable, "-m", "benchmarks.end_to_end", "--images", cifar]
        commands["end_to_end"] = [*module, "--only", "recipe"]
    return {name: commands[name] for name in SECTIONS if name in commands}


def _script(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "ignore", str(BENCHMARKS / name), *arguments]


def run(arguments: argparse.Namespace) -> int:
    """Measures one after another; returns how many failed."""
    commands = list_commands(arguments.images, arguments.cifar)
    chosen = {name: commands[name] for name in arguments.only or commands if name in commands}
    minutes = sum(_MINUTES[name] for name in chosen)
    print(f"{', '.join(chosen)}: about {minutes} minutes on two cores with 400 photos", flush=True)
    left_out = sorted(set(arguments.only or SECTIONS) - set(chosen))
    for name in left_out:
        print(f"{name} is left out: it needs --images or --cifar", flush=True)
    if not chosen:
        return len(left_out)
    failed = 0
    for name, command in chosen.items():
        started = time.monotonic()
        print(f"\n== {name}, about {_MINUTES[name]} minutes", flush=True)
        path = RESULTS_DIR / f"{name}.json"
        done = subprocess.run([*command, "--json", str(path)], cwd=ROOT)
        failed += done.returncode != 0
        said = "failed" if done.returncode else "done"
        print(f"== {name} {said} in {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
    write_page()
    print(f"\n{PAGE.relative_to(ROOT)} and its plots are made")
    return failed


def smoke(images: str) -> int:
    """Reads and writes a little, and prints its ratios beside the committed ones."""
    with tempfile.TemporaryDirectory() as folder:
        keep = f"{folder}/data"
        given = ["--images", images, "--repeats", "3"]
        read = _script("read.py", *given, "--records", "256", "--keep", keep)
        read += ["--readers", *_list_smoke_readers(), "--tasks", *_SMOKE_TASKS]
        write = _script("write.py", *given, "--writers", "ours", "script")
        for name, command in (("read", read), ("write", write)):
            done = subprocess.run([*command, "--json", f"{folder}/{name}.json"], cwd=ROOT)
            if done.returncode:
                print(f"{name} failed, as it says above")
                return done.returncode
        now = list_ratios(load_raw(pathlib.Path(folder)))
    print("\n" + compare(now, list_ratios(load_raw())))
    return 0


def _list_smoke_readers() -> list[str]:
    rivals = {"ffcv", "dali"}
    return [
        name for name in _SMOKE_READERS if name not in rivals or (_BUILD / name / ".ready").exists()
    ]


def compare(now: dict[str, float], committed: dict[str, float]) -> str:
    """A line a ratio: its value now, and the committed one where there is one."""
    lines = [f"{'CPU seconds':<44}{'now':>8}{'committed':>12}"]
    for name, ratio in now.items():
        before = f"{committed[name]:>12.2f}" if name in committed else f"{'–':>12}"
        lines.append(f"{name:<44}{ratio:>8.2f}{before}")
    return "\n".join(lines)


def main() -> None:
    """Does what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="everything, and the page")
    running.add_argument("--images", type=photos, help="a folder of photos")
    running.add_argument("--cifar", type=splits, help="train/<class>/<file>, test/<class>/<file>")
    running.add_argument("--only", nargs="+", choices=SECTIONS, help="some of the benchmarks")
    smoking = commands.add_parser("smoke", help="a little, beside the committed ratios")
    smoking.add_argument("--images", type=photos, required=True, help="a folder of photos")
    commands.add_parser("page", help="RESULTS.md from the raw results")
    arguments = parser.parse_args()
    if arguments.command == "run":
        sys.exit(run(arguments))
    if arguments.command == "smoke":
        sys.exit(smoke(arguments.images))
    write_page()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
