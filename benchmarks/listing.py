"""Memory and CPU time of listing very many images, with references that are made up.

    python -m benchmarks.listing [--images 10000000]

Runs the shipped list stage on the local Beam runner, up to where chunks are spread over workers.
"""

import argparse
import pathlib
import tempfile
import time
from collections.abc import Iterator

import apache_beam as beam
import psutil
from apache_beam.options.pipeline_options import PipelineOptions

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.ingest.listed import ListedChunk, list_chunks
from image_pipeline.components.ingest.options import IngestOptions
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


def _count(chunk: ListedChunk) -> int:
    return chunk.listed


def _list(images: int, folder: str) -> None:
    with beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS))) as root:
        _ = (
            root
            | beam.Create([f"source:benchmarks.listing:MadeUp:{images}"])
            | beam.FlatMap(list_chunks, folder, IngestOptions())
            | beam.Reshuffle()
            | beam.Map(_count)
            | beam.combiners.ToList()
            | beam.Map(lambda counts: print(f"{sum(counts):,} in {len(counts):,} chunks"))
        )


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=10_000_000)
    images = parser.parse_args().images
    with tempfile.TemporaryDirectory() as folder:
        _list(10_000, f"{folder}/warm")
        before, process = psutil.Process().memory_info().rss, psutil.Process()
        started, cpu = time.perf_counter(), process.cpu_times()
        with watch_memory() as memory:
            _list(images, f"{folder}/work")
        spent, wall = process.cpu_times(), time.perf_counter() - started
        kept = sum(path.stat().st_size for path in pathlib.Path(folder, "work").rglob("*/*"))
    print(
        f"{wall:.1f} s wall, {spent.user + spent.system - cpu.user - cpu.system:.1f} s CPU; "
        f"memory {before / 1e6:,.0f} MB before, {memory.peak_rss_mb:,.0f} MB at most; "
        f"{kept / images:.1f} B an image in the working folder"
    )


if __name__ == "__main__":
    main()
