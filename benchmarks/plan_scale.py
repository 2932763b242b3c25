"""Time, memory and disk of planning very many images, without pixels.

    python benchmarks/plan_scale.py [--images 10000000] [--shard-bytes 128000000]
        [--copies 0.01] [--set stratify=true]

Writes the rows that preparing so many images would leave behind (random hashes, real paths, and a
share of copies), then runs the shipped `plan_shards` over them: duplicates, splits, order, shards,
books. `--set` sets an option of ingest. Memory of its own is what the system cannot take back:
without the files that are mapped, which are on the disk.
"""

import argparse
import contextlib
import hashlib
import json
import pathlib
import tempfile
import threading
import time
from collections.abc import Iterator

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


def write_rows(folder: pathlib.Path, number: int, rows: int, copies: float) -> str:
    """Writes one chunk's rows, a share of them with the bytes of the first; returns its name."""
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
        "sha256": _random_binary(generator, rows, 32, round(copies * rows)),
        "record_id": _random_binary(generator, rows, 16),
        "perceptual_hash": generator.integers(0, 2**64, rows, np.uint64),
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


def _random_binary(
    generator: np.random.Generator, rows: int, width: int, copies: int = 0
) -> pa.Array:
    content = generator.integers(0, 256, (rows, width), np.uint8)
    content[rows - copies :] = content[:copies]
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), rows, [None, pa.py_buffer(content.tobytes())]
    )


@contextlib.contextmanager
def _watch_own_memory() -> Iterator[list[int]]:
    """The most bytes that the process held without mapped files, 20 times a second."""
    peak, stop = [0], threading.Event()

    def sample() -> None:
        while not stop.wait(0.05):
            info = psutil.Process().memory_info()
            peak[0] = max(peak[0], info.rss - info.shared)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def _books(scratch: str) -> list[pathlib.Path]:
    return [path for path in pathlib.Path(scratch).glob("books-*/*") if path.is_file()]


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=10_000_000)
    parser.add_argument("--shard-bytes", type=int, default=IngestOptions().shard_bytes)
    parser.add_argument("--copies", type=float, default=0.0)
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=JSON")
    arguments = parser.parse_args()
    images, given = arguments.images, dict(each.split("=", 1) for each in arguments.set)
    options = IngestOptions.model_validate(
        {"shard_bytes": arguments.shard_bytes, "conflicting_labels": "keep"}
        | {name: json.loads(value) for name, value in given.items()}
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch, "prepared")
        folder.mkdir()
        chunks = []
        for number, first in enumerate(range(0, images, ROWS_A_CHUNK)):
            rows = min(ROWS_A_CHUNK, images - first)
            name = write_rows(folder, number, rows, arguments.copies)
            chunks.append(PreparedChunk(number, first + rows >= images, rows, 0, name))
        started, cpu = time.perf_counter(), psutil.Process().cpu_times()
        with watch_memory() as memory, _watch_own_memory() as own:
            tasks = plan_shards(chunks, WorkFolder(scratch), options)
        spent, seconds = psutil.Process().cpu_times(), time.perf_counter() - started
        placed = sum(path.stat().st_size for path in pathlib.Path(scratch).glob("placed-*"))
        digest = hashlib.sha256(repr([task.row_span for task in tasks]).encode())
        for path in sorted([*pathlib.Path(scratch).glob("placed-*"), *_books(scratch)]):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        print(f"{images:,} images in {len(tasks):,} shards, {len(chunks):,} chunks")
        print(f"SHA-256 of all that was planned: {digest.hexdigest()}")
        print(
            f"planned in {seconds:.1f} s wall, "
            f"{spent.user + spent.system - cpu.user - cpu.system:.1f} s CPU; "
            f"peak {memory.peak_rss_mb:,.0f} MB, {own[0] / 1e6:,.0f} MB of its own (goal: 1,000); "
            f"rows on disk {placed / 1e9:.2f} GB"
        )


if __name__ == "__main__":
    main()
