"""Memory and CPU time of listing very many images, whose references or rows are made up.

    python -m benchmarks.listing [--images 10000000] [--rows]

Lists them as ingest does before it begins, and writes the listing to a working folder: references
of a source of one's own, or with `--rows` those of a CSV file that names objects in a store.
"""

import argparse
import pathlib
import tempfile
import time
from collections.abc import Iterator

import psutil

from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.run.used_memory import watch_memory


class MadeUp:
    """A source (`source:benchmarks.listing:MadeUp:COUNT`) of a thousand folders of photos."""

    def __init__(self, count: str):
        """Takes the number of images."""
        self._count = int(count)

    def list(self) -> Iterator[ImageRef]:
        """Names, sizes and times as a folder of photos has them."""
        for n in range(self._count):
            size_bytes, changed_ns = 100_000 + n * 7919 % 20_000, n * 2_654_435_761_123
            yield ImageRef(
                f"class-{n * 1000 // self._count:03d}/{n:08d}.jpg", size_bytes, changed_ns
            )

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """Nothing is read."""
        raise NotImplementedError


def _write_table(path: pathlib.Path, rows: int) -> str:
    with path.open("w") as file:
        file.write("path,class,age\n")
        for n in range(rows):
            file.write(f"gs://photos/{n:08d}.jpg,class-{n % 1000:03d},{n % 90}\n")
    return str(path)


def _list(images: str, work_dir: str) -> None:
    listing = list_images(images, IngestOptions(follow_links=True))
    chunks = WorkFolder(work_dir).keep_listing(listing)
    print(f"{listing.found:,} in {len(chunks):,} chunks, {len(listing.classes):,} classes")


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=10_000_000)
    parser.add_argument("--rows", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        images = f"source:benchmarks.listing:MadeUp:{arguments.images}"
        if arguments.rows:
            images = _write_table(pathlib.Path(folder, "t.csv"), arguments.images)
        before, process = psutil.Process().memory_info().rss, psutil.Process()
        started, cpu = time.perf_counter(), process.cpu_times()
        with watch_memory() as memory:
            _list(images, f"{folder}/work")
        spent, wall = process.cpu_times(), time.perf_counter() - started
        kept = sum(path.stat().st_size for path in pathlib.Path(folder, "work").rglob("*/*"))
    print(
        f"{wall:.1f} s wall, {spent.user + spent.system - cpu.user - cpu.system:.1f} s CPU; "
        f"memory {before / 1e6:,.0f} MB before, {memory.peak_rss_mb:,.0f} MB at most; "
        f"{kept / arguments.images:.1f} B an image in the working folder"
    )


if __name__ == "__main__":
    main()
