"""What the prepare stage leaves in the working folder: a row for every source, and payloads.

All that follows (duplicates, splits, order, shards) is computed from the rows and only copies
payloads, so a source that vanishes or changes later does no harm, and the balance of shards is
exact.
"""

from collections.abc import Iterable

import pyarrow as pa

from image_pipeline.components import files
from image_pipeline.components.dataset.index_file import MASK_FIELDS
from image_pipeline.components.ingest.payloads import write_payloads
from image_pipeline.components.ingest.work_folder import PreparedChunk, WorkFolder
from image_pipeline.components.meaning.options import IngestOptions

ROW_SCHEMA = pa.schema(
    [
        ("path", pa.large_binary()),  # relative to the images folder, the file system's own bytes
        ("record_id", pa.binary(16)),
        ("sha256", pa.binary(32)),  # of the source's bytes; null if they could not be read
        ("reason", pa.string()),  # why it is quarantined or skipped; null if it was prepared
        ("is_skipped", pa.bool_()),  # null if it is not: it is prepared, or quarantined
        ("message", pa.large_string()),
        ("source_bytes", pa.int64()),
        ("label", pa.string()),
        ("group", pa.string()),
        ("forced_split", pa.string()),
        ("further", pa.large_string()),  # a table's further columns as JSON; null without any
        ("chunk", pa.string()),
        ("payload_offset", pa.int64()),
        ("payload_length", pa.int64()),
        ("payload_crc32c", pa.uint32()),  # from before it was written
        ("format", pa.string()),
        ("height", pa.int32()),
        ("width", pa.int32()),
        ("channels", pa.int32()),
        ("source_format", pa.string()),
        ("source_height", pa.int32()),
        ("source_width", pa.int32()),
        ("orientation", pa.int32()),
        ("notes", pa.list_(pa.string())),
        ("perceptual_hash", pa.uint64()),  # of the stored image; null unless near_duplicates is set
        ("mask_sha256", pa.binary(32)),  # of the stored mask; the payload begins with it
        *MASK_FIELDS,
    ]
)


def write_rows(
    results: Iterable[tuple[dict, bytes]], name: str, work: WorkFolder, options: IngestOptions
) -> pa.Table:
    """Writes the two files of a chunk; returns the rows."""
    rows = write_payloads(results, name, work, options.seed)
    with files.write_atomically(work.rows_path(name)) as file:
        table = pa.Table.from_pylist(rows, ROW_SCHEMA)
        with pa.ipc.new_file(file, ROW_SCHEMA) as writer:
            writer.write_table(table)
    return table


def count_unusable(rows: pa.Table) -> tuple[int, int]:
    """How many rows are quarantined sources, and how many are skipped ones."""
    skipped = len(rows) - rows["is_skipped"].null_count
    return len(rows) - rows["reason"].null_count - skipped, skipped


def read_rows(path: str) -> pa.Table:
    """Reads a chunk's rows; local files are mapped into memory, not copied."""
    if files.is_local(path):
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    return pa.ipc.open_file(pa.BufferReader(files.read_file(path))).read_all()


def read_chunk_rows(chunk: PreparedChunk, work: WorkFolder) -> pa.Table:
    """Reads the rows of a chunk that is done; as `read_rows`."""
    return pa.concat_tables(read_rows(work.rows_path(name)) for name in chunk.names)
