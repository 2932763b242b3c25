"""Peak memory of ingest with few and with many images: it must not grow with their number.

    python benchmarks/ingest_memory.py [--images 5000 50000]

Each number of 32x32 JPEGs, drawn here, is ingested by the command line in a process of its own.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import cv2
import numpy as np


def draw_images(folder: pathlib.Path, count: int) -> None:
    """Writes random JPEGs into ten class folders."""
    generator = np.random.default_rng(0)
    for number in range(count):
        path = folder / str(number % 10) / f"{number:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (32, 32, 3), np.uint8)
        path.write_bytes(cv2.imencode(".jpg", pixels)[1].tobytes())


def ingest(folder: pathlib.Path, output: pathlib.Path) -> dict:
    """Runs the command line and returns its summary."""
    command = pathlib.Path(sys.executable).parent / "image-pipeline"
    arguments = ["ingest", "--images", str(folder), "--output", str(output), "--json"]
    done = subprocess.run([str(command), *arguments], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, nargs="+", default=[5_000, 50_000])
    peaks = []
    for count in parser.parse_args().images:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            draw_images(folder / "images", count)
            summary = ingest(folder / "images", folder / "out")
        peaks.append(summary["peak_rss_mb"])
        print(
            f"{summary['written']:>7,} images: peak {summary['peak_rss_mb']:,} MB, "
            f"{summary['seconds']} s, {summary['bytes'] / 1e6:.1f} MB written"
        )
    print(f"difference: {max(peaks) - min(peaks)} MB (goal: under 100)")


if __name__ == "__main__":
    main()
