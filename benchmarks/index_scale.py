"""Start-up time and memory of the index of very many records, without pixels.

    python benchmarks/index_scale.py [--records 10000000] [--hollow]

Writes the index that ingest would have written (a row group a shard, random record ids, real
paths), then opens it in processes of their own as training does: the order, one batch's draw, and
what the index says of its records. With `index.rows`, and without it, as older versions wrote it.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from image_pipeline.components.dataset.checksums import ListedFile, describe_file
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.index_file import INDEX_SCHEMA
from image_pipeline.components.dataset.index_rows import ROW, make_rows, seal_shard
from image_pipeline.components.dataset.manifest import (
    FORMAT_VERSION,
    Books,
    ListedShard,
    ListedSplit,
    Manifest,
)
from image_pipeline.components.dataset.paths import INDEX, MANIFEST, ROWS, name_shard
from image_pipeline.components.order.batches import batch_positions
from image_pipeline.components.order.order import BalancedOrder, ShuffledOrder
from image_pipeline.run.used_memory import watch_memory

RECORDS_A_SHARD = 5_000  # 30 kB a record and 150 MB a shard
RECORD_BYTES = 30_000
CLASSES = 1_000
BATCH_SIZE, BATCHES = 256, 200


def write_index(folder: pathlib.Path, records: int, hollow: bool) -> None:
    """Writes the index of one split and its manifest; `hollow` leaves out what the rows say."""
    count, classes = -(-records // RECORDS_A_SHARD), [f"class-{n:03d}" for n in range(CLASSES)]
    shards = []
    with (
        (folder / ROWS).open("wb") as file,
        pq.ParquetWriter(folder / INDEX, INDEX_SCHEMA) as index,
    ):
        for number, first in enumerate(range(0, records, RECORDS_A_SHARD)):
            rows = min(RECORDS_A_SHARD, records - first)
            name, sha256 = name_shard("train", number, count), f"{number:064x}"
            if not hollow:
                table = make_table(number, first, rows)
                index.write_table(table)
                file.write(seal_shard(make_rows(table, classes), sha256).tobytes())
            size_bytes = rows * (RECORD_BYTES + 16)
            shards.append(ListedShard(file=name, records=rows, bytes=size_bytes, sha256=sha256))
        file.truncate(records * ROW.itemsize)
    split = ListedSplit(records=records, bytes=records * (RECORD_BYTES + 16), shards=shards)
    counts = {"found": records, "written": records, "duplicates": 0, "quarantined": 0}
    of_train = {"train": dict.fromkeys(classes, 1)}
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        books=Books(**counts, quarantine_reasons={}, conflicting_labels=0, classes=of_train),
        splits={"train": split},
        files={
            INDEX: describe_file(str(folder / INDEX)),
            ROWS: ListedFile(bytes=records * ROW.itemsize, sha256="0" * 64),
        },
        options={},
    )
    (folder / MANIFEST).write_bytes(manifest.to_bytes())


def make_table(shard: int, first: int, rows: int) -> pa.Table:
    """One shard's rows of the index."""
    generator = np.random.default_rng(shard)
    ids = generator.bytes(16 * rows).hex()
    classes = generator.integers(0, CLASSES, rows).tolist()
    offsets = np.arange(rows) * (RECORD_BYTES + 16)
    same = {
        "split": "train",
        "shard": shard,
        "record_length": RECORD_BYTES,
        "payload_length": RECORD_BYTES - 300,
        "format": "jpeg",
        "height": 256,
        "width": 341,
        "channels": 3,
        "source_format": "jpeg",
        "source_bytes": 110_000,
        "source_height": 375,
        "source_width": 500,
        "orientation": 1,
        "notes": [],
    }
    columns = {name: [value] * rows for name, value in same.items()} | {
        "record_offset": offsets,
        "payload_offset": offsets + 312,
        "record_id": [ids[start : start + 32] for start in range(0, 32 * rows, 32)],
        "label": [f"class-{n:03d}" for n in classes],
        "source": [f"class-{n:03d}/image-{first + i:08d}.jpg" for i, n in enumerate(classes)],
    }
    arrays = [
        pa.array(columns.get(field.name, [None] * rows), field.type) for field in INDEX_SCHEMA
    ]
    return pa.table(arrays, schema=INDEX_SCHEMA)


def open_index(folder: pathlib.Path, records: int, hollow: bool) -> None:
    """Reads the index, draws a batch of two orders, and prints what that took."""
    shards = -(-records // RECORDS_A_SHARD)
    paths = [
        f"{folder}/Split-train/data_tfrecord-{number:05d}-of-{shards:05d}"
        for number in range(shards)
    ]
    before_mb = psutil.Process().memory_info().rss / 1e6
    with watch_memory() as memory:
        started = time.process_time()
        index = read_index(paths)
        print(
            f"read_index   {time.process_time() - started:7.2f} s of CPU  "
            f"{len(index):,} records of {len(index.classes):,} classes in {shards:,} shards"
        )
    resident_mb = psutil.Process().memory_info().rss / 1e6
    print(
        f"memory       {resident_mb:7,.0f} MB resident, peak {memory.peak_rss_mb:,.0f} MB, "
        f"of which {before_mb:,.0f} MB were there before; held {index.nbytes / 1e6:,.2f} MB"
    )
    if hollow:
        return
    rows = range(len(index))
    orders = {
        "shuffled": lambda: ShuffledOrder(rows, seed=0),
        "balanced": lambda: BalancedOrder(index.column("label"), rows, "uniform", 0, 10.0),
    }
    for name, make in orders.items():
        started = time.process_time()
        order = make()
        made = time.process_time()
        for step in range(BATCHES):
            index.take(order.draw(3, batch_positions(step, BATCH_SIZE, order.length)).rows)
        drawn = time.process_time()
        print(
            f"{name}     {made - started:7.2f} s of CPU to make, "
            f"{1e3 * (drawn - made) / BATCHES:.2f} ms for a batch of {BATCH_SIZE} of {BATCHES}; "
            f"{psutil.Process().memory_info().rss / 1e6:,.0f} MB resident"
        )


def main() -> None:
    """Writes an index, then opens it in a fresh process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--open", type=pathlib.Path, help="only open the index of this folder")
    parser.add_argument("--hollow", action="store_true", help="only what is read when opening")
    arguments = parser.parse_args()
    if arguments.open:
        open_index(arguments.open, arguments.records, arguments.hollow)
        return
    with tempfile.TemporaryDirectory() as scratch:
        write_index(pathlib.Path(scratch), arguments.records, arguments.hollow)
        again = ["--records", str(arguments.records), "--open", scratch]
        again += ["--hollow"] * arguments.hollow
        for name in (ROWS,) if arguments.hollow else (ROWS, INDEX):
            size_mb = pathlib.Path(scratch, name).stat().st_size / 1e6
            print(f"\nby {name}: {size_mb:,.0f} MB", flush=True)
            subprocess.run([sys.executable, __file__, *again], check=True)
            pathlib.Path(scratch, MANIFEST).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
