"""Time, memory and disk of planning very many images, without pixels.

    python benchmarks/plan_scale.py [--images 10000000] [--shard-bytes 128000000]

Writes the rows that preparing so many images would leave behind (random hashes, real paths), then
runs the shipped `plan_shards` over them: duplicates, splits, order, shards, books.
"""

import argparse
import pathlib
import tempfile
import time

import numpy as np
import psutil
import pyarrow as pa

from image_pipeline.components.ingest.partition import plan_shards
from image_pipeline.components.ingest.prepared import ROW_SCHEMA
from image_pipeline.components.ingest.work_folder import PreparedChunk, WorkFolder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.run.used_memory import watch_memory

ROWS_A_CHUNK = 10_000
STORED_BYTES = 30_000


def write_rows(folder: pathlib.Path, number: int, rows: int) -> str:
    """Writes one chunk's rows; returns its name."""
    generator = np.random.default_rng(number)
    first = number * ROWS_A_CHUNK
    same = {
        "format": "jpeg",
        "source_format": "jpeg",
        "height": 256,
        "width": 341,
        "channels": 3,
        "source_height": 375,
        "source_width": 500,
        "orientation": 1,
        "source_bytes": 110_000,
        "payload_length": STORED_BYTES,
        "chunk": f"{number:032x}",
        "notes": [],
    }
    columns = {name: [value] * rows for name, value in same.items()} | {
        "path": [b"class-%03d/image-%08d.jpg" % (n % 1000, n) for n in range(first, first + rows)],
        "label": [f"class-{n % 1000:03d}" for n in range(first, first + rows)],
        "sha256": _random_binary(generator, rows, 32),
        "record_id": _random_binary(generator, rows, 16),
        "payload_offset": np.arange(rows) * STORED_BYTES,
    }
    arrays = [
        columns[field.name]
        if isinstance(columns.get(field.name), pa.Array)
        else pa.array(columns.get(field.name, [None] * rows), field.type)
        for field in ROW_SCHEMA
    ]
    table = pa.table(arrays, schema=ROW_SCHEMA)
    path = str(folder / f"{same['chunk']}.arrow")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, ROW_SCHEMA) as writer:
        writer.write_table(table)
    return same["chunk"]


def _random_binary(generator: np.random.Generator, rows: int, width: int) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), rows, [None, pa.py_buffer(generator.bytes(rows * width))]
    )


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=10_000_000)
    parser.add_argument("--shard-bytes", type=int, default=IngestOptions().shard_bytes)
    arguments = parser.parse_args()
    images, options = arguments.images, IngestOptions(shard_bytes=arguments.shard_bytes)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch, "prepared")
        folder.mkdir()
        chunks = []
        for number, first in enumerate(range(0, images, ROWS_A_CHUNK)):
            rows = min(ROWS_A_CHUNK, images - first)
            name = write_rows(folder, number, rows)
            chunks.append(PreparedChunk(number, first + rows >= images, rows, 0, name))
        started, cpu = time.perf_counter(), psutil.Process().cpu_times()
        with watch_memory() as memory:
            tasks = plan_shards(chunks, WorkFolder(scratch), options)
        spent = psutil.Process().cpu_times()
        placed = sum(path.stat().st_size for path in pathlib.Path(scratch).glob("placed-*"))
        print(f"{images:,} images in {len(tasks):,} shards, {len(chunks):,} chunks")
        print(
            f"planned in {time.perf_counter() - started:.1f} s wall, "
            f"{spent.user + spent.system - cpu.user - cpu.system:.1f} s CPU; "
            f"peak {memory.peak_rss_mb:,.0f} MB (goal: under 2,000 MB); "
            f"rows on disk {placed / 1e9:.2f} GB"
        )


if __name__ == "__main__":
    main()
