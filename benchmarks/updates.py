"""What an update of a data set costs, compared with an ingest of all its images.

    python benchmarks/updates.py --images PHOTOS [--count 12000]

Makes so many distinct photos in 24 class folders and ingests them. Then a hundredth of them is
added, another is removed, and a third is moved to the next class; what follows is an update, an
update of what has not changed since, and a fresh ingest, of which all files are compared with the
updated ones. The same with 12 photos says what of this is fixed: starting Python and importing.
Each is a process of its own; its CPU seconds are those of all its threads, in user and system mode,
and an audit hook counts the images that it opens.
"""

import argparse
import filecmp
import json
import os
import pathlib
import random
import runpy
import shutil
import subprocess
import sys
import tempfile
import time

from bench.folders import list_photos, photos
from bench.raw import ROOT, add_json_argument, write_raw

_CLASSES = 24
_FIXED = 12  # photos, whose own cost is nothing beside the process's


def run_here(images: str, arguments: list[str]) -> None:
    """Runs a command in this process, and leaves how many files below a folder it opened."""
    opened: set[str] = set()

    def note(event: str, values: tuple) -> None:
        if event == "open" and isinstance(values[0], str) and values[0].startswith(images):
            opened.add(values[0])

    sys.addaudithook(note)
    sys.argv = ["image-pipeline", *arguments]
    try:
        runpy.run_module("image_pipeline.cli", run_name="__main__")
    finally:
        print(json.dumps(len([path for path in opened if os.path.isfile(path)])))


def run(images: pathlib.Path, *arguments: str) -> dict[str, float]:
    """Runs a command in a process of its own; its CPU and wall seconds, and the files it opened."""
    command = [sys.executable, __file__, "--run", f"{images}/", *arguments, "--quiet"]
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed")
    spent = {
        "user_s": used.ru_utime,
        "system_s": used.ru_stime,
        "wall_s": time.monotonic() - started,
    }
    return {"cpu_s": used.ru_utime + used.ru_stime, **spent, "opened": json.loads(printed)}


def write_photo(originals: list[pathlib.Path], number: int, images: pathlib.Path) -> None:
    """Writes one of the originals with a comment that makes its bytes other ones."""
    data, comment = originals[number % len(originals)].read_bytes(), b"%08d" % number
    segment = b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment
    folder = images / f"class-{number % _CLASSES:02d}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number:08d}.jpg").write_bytes(data[:2] + segment + data[2:])


def edit(originals: list[pathlib.Path], count: int, images: pathlib.Path) -> int:
    """Adds, removes and moves a hundredth each, at least one; returns how many that is."""
    some = max(1, count // 100)
    chosen = random.Random(0).sample(sorted(images.glob("*/*.jpg")), 2 * some)
    for path in chosen[:some]:
        path.unlink()
    for path in chosen[some:]:
        following = (int(path.parent.name[-2:]) + 1) % _CLASSES
        (images / f"class-{following:02d}").mkdir(exist_ok=True)
        path.rename(images / f"class-{following:02d}" / path.name)
    for number in range(count, count + some):
        write_photo(originals, number, images)
    return some


def compare(one: pathlib.Path, other: pathlib.Path) -> int:
    """The number of files of two data sets, which must be the same, but for what is hidden."""
    found = (
        (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        for folder in (one, other)
    )
    names, others = (sorted(name for name in each if name[0] != ".") for each in found)
    _, differing, missing = filecmp.cmpfiles(one, other, names, shallow=False)
    if names != others or differing or missing:
        sys.exit(f"files differ: {differing or missing or set(names) ^ set(others)}")
    return len(names)


def measure(originals: list[pathlib.Path], count: int, scratch: pathlib.Path) -> dict[str, dict]:
    """All steps with so many photos: what each one took."""
    images, data, fresh = scratch / "images", scratch / "data", scratch / "fresh"
    for number in range(count):
        write_photo(originals, number, images)
    ingest = ("ingest", "--images", str(images), "--output")
    run(images, *ingest, str(data))
    some = edit(originals, count, images)
    took = {
        "update": run(images, "update", str(data)),
        "nothing changed": run(images, "update", str(data)),
        "fresh ingest": run(images, *ingest, str(fresh)),
    }
    same = compare(data, fresh)
    print(f"{count:,} photos, {some} each added, removed and moved; {same} files are the same")
    for name, each in took.items():
        share = each["cpu_s"] / took["fresh ingest"]["cpu_s"]
        print(
            f"  {name:<16}{each['cpu_s']:7.2f} s CPU ({each['user_s']:.2f} user, "
            f"{each['system_s']:.2f} system), {share:6.1%}, {each['wall_s']:6.1f} s wall, "
            f"{each['opened']:6,} images opened",
            flush=True,
        )
    shutil.rmtree(scratch)
    return took


def main() -> None:
    """Runs and prints."""
    if sys.argv[1:2] == ["--run"]:
        run_here(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=photos, required=True, help="a folder of photos")
    parser.add_argument("--count", type=int, default=12_000, help="photos to make of them")
    add_json_argument(parser)
    arguments = parser.parse_args()
    originals = list_photos(pathlib.Path(arguments.images))
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        results = {n: measure(originals, n, scratch / str(n)) for n in (_FIXED, arguments.count)}
    fixed, of_all = results[_FIXED]["update"]["cpu_s"], results[arguments.count]
    rest = (of_all["update"]["cpu_s"] - fixed) / of_all["fresh ingest"]["cpu_s"]
    print(f"an update is {fixed:.2f} s and {rest:.1%} of a fresh ingest")
    write_raw(arguments.json, "updates", arguments, results)


if __name__ == "__main__":
    main()
