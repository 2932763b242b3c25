"""What the prepare stage leaves in the working folder: a row for every source, and payloads.

All that follows (duplicates, splits, order, shards) is computed from the rows and only copies
payloads, so a source that vanishes or changes later does no harm, and the balance of shards is
exact.
"""

import dataclasses
import logging
import uuid
from collections.abc import Iterable

import pyarrow as pa

from image_pipeline.components import files
from image_pipeline.components.dataset.index_file import MASK_FIELDS
from image_pipeline.components.ingest.payloads import rows_path, write_payloads
from image_pipeline.components.ingest.sealed import read_sealed, sum_file, write_sealed
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.references import Chunk

_LOG = logging.getLogger(__name__)

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


@dataclasses.dataclass(frozen=True, slots=True)
class PreparedChunk:
    """What the prepare stage passes on: a few bytes for hundreds of images.

    Attributes:
      number: the chunk's number.
      is_last: whether the listing ended with it.
      found: number of references in it.
      bad: how many of them are quarantined.
      name: its files in the working folder are `name` + ".payload" and ".arrow".
      skipped: how many of them are not images.
      shards: of a generator, how many shards these images are of, which were listed instead.
      parts: into how many pairs of files they are divided; None: they have one, called `name`.
      run: the run that passes it on, see `fence`.
    """

    number: int
    is_last: bool
    found: int
    bad: int
    name: str
    skipped: int = 0
    shards: int | None = None
    parts: int | None = None
    run: str = ""

    @property
    def listed(self) -> int:
        """How many of the references that were listed it is made from."""
        return self.found if self.shards is None else self.shards

    @property
    def names(self) -> list[str]:
        """The names of its files."""
        return [self.name] if self.parts is None else name_parts(self.name, self.parts)


def name_anew(key: str) -> str:
    """A name for a chunk's files that no other attempt to prepare it uses.

    So if a worker that was given up writes on, the rows and the payloads of one attempt never meet
    those of another.
    """
    return f"{key}-{uuid.uuid4().hex[:8]}"


def mark_done(done: PreparedChunk, key: str, work_dir: str) -> None:
    """Marks a chunk as prepared, under the name of all that it depends on."""
    stored = {"chunk": dataclasses.asdict(done), "rows": sum_rows(done, work_dir)}
    write_sealed(_mark_path(work_dir, key), stored)


def find_done(chunk: Chunk, key: str, work_dir: str) -> PreparedChunk | None:
    """What an earlier run prepared of a chunk; None if it did not, or that is damaged."""
    stored = read_sealed(_mark_path(work_dir, key))
    if stored is None:
        return None
    done = PreparedChunk(**stored["chunk"])
    if stored["rows"] != sum_rows(done, work_dir):
        what = f"The rows of chunk {chunk.number} in {work_dir!r}"
        _LOG.warning("%s are not as they were written; its images are prepared again.", what)
        return None
    number, is_last, run = chunk.number, chunk.is_last, chunk.run
    return dataclasses.replace(done, number=number, is_last=is_last, run=run)


def sum_rows(done: PreparedChunk, work_dir: str) -> list[int]:
    """The checksums of the files of a chunk's rows, as `sum_file` gives them."""
    return [sum_file(rows_path(work_dir, name)) for name in done.names]


def _mark_path(work_dir: str, key: str) -> str:
    return files.join(work_dir, "prepared", f"{key}.json")


def name_parts(name: str, parts: int) -> list[str]:
    """The names of a chunk's files, if there are several."""
    return [f"{name}-{part:05d}" for part in range(parts)]


def write_rows(
    results: Iterable[tuple[dict, bytes]], name: str, work_dir: str, options: IngestOptions
) -> pa.Table:
    """Writes the two files of a chunk; returns the rows."""
    rows = write_payloads(results, name, work_dir, options.seed)
    with files.write_atomically(rows_path(work_dir, name)) as file:
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


def read_chunk_rows(chunk: PreparedChunk, work_dir: str) -> pa.Table:
    """Reads the rows of a chunk that is done; as `read_rows`."""
    return pa.concat_tables(read_rows(rows_path(work_dir, name)) for name in chunk.names)
