"""Rows of a data set's index by their number, without holding the index."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from image_pipeline.components import files
from image_pipeline.components.dataset.index_file import (
    check_index,
    check_rows,
    find_index_file,
    reading_index,
)
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.tfrecord import (
    FOOTER_BYTES,
    HEADER_BYTES,
    CorruptRecord,
    unframe,
)
from image_pipeline.components.errors import UserError


class IndexRows:
    """The rows of an index, of which only those that are asked for are read. Threads may share it.

    Reading raises UserError once the data set has been replaced.
    A row group is that of a shard, so a row costs as much as its shard's part of the index.
    """

    def __init__(self, data_dir: str, manifest: Manifest):
        """Reads the footer of the index.

        Raises:
          UserError: if the index was changed since ingest wrote it.
        """
        check_index(data_dir)
        self._data_dir, self._manifest = data_dir, manifest
        self._path = find_index_file(data_dir)
        with reading_index(data_dir):
            self._stat = files.stat_file(self._path)
            self._footer = pq.read_metadata(self._path)
        groups = range(self._footer.num_row_groups)
        self._ends = np.cumsum(
            [self._footer.row_group(each).num_rows for each in groups], dtype=int
        )

    def __len__(self) -> int:
        """The number of records."""
        return self._footer.num_rows

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return self._footer.schema.to_arrow_schema().names

    def scan(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Columns of all rows in their order, some rows at a time."""
        with reading_index(self._data_dir):
            for batch in self._open().iter_batches(columns=list(columns)):
                yield check_rows(self._data_dir, pa.Table.from_batches([batch]))

    def read(self, numbers: Sequence[int], columns: Sequence[str] | None = None) -> list[dict]:
        """Some rows, in the order of their numbers as given; None gives all columns."""
        found: dict[int, dict[str, Any]] = {}
        groups = np.searchsorted(self._ends, numbers, side="right")
        file, wanted = self._open(), None if columns is None else list(columns)
        for group in np.unique(groups).tolist():
            own = np.asarray(numbers)[groups == group]
            start = self._ends[group] - self._footer.row_group(group).num_rows
            with reading_index(self._data_dir):
                rows = file.read_row_group(group, columns=wanted)
            rows = check_rows(self._data_dir, rows).take(pa.array(own - start))
            found |= zip(own.tolist(), rows.to_pylist(), strict=True)
        return [found[number] for number in numbers]

    def find_shard(self, row: dict[str, Any]) -> str:
        """The path of the shard that holds a row's record."""
        shard = self._manifest.splits[row["split"]].shards[row["shard"]]
        return files.join(self._data_dir, shard.file)

    def read_record(self, row: dict[str, Any]) -> bytes:
        """The record of a row: a serialized tf.train.Example, with its checksums verified.

        Raises:
          UserError: if it is damaged.
        """
        start = row["record_offset"]
        end = start + HEADER_BYTES + row["record_length"] + FOOTER_BYTES
        path = self.find_shard(row)
        try:
            return unframe(files.read_file(path, start, end))
        except (CorruptRecord, OSError) as error:
            raise UserError(
                f"the record of {row['source']!r} in {path} is damaged ({error}); "
                f"`image-pipeline verify {self._data_dir}` lists all damage."
            ) from error

    def _open(self) -> pq.ParquetFile:
        try:
            is_same = files.stat_file(self._path) == self._stat
        except FileNotFoundError:
            is_same = False
        if not is_same:  # Its rows would be others, of other records.
            raise UserError(
                f"{self._data_dir!r} has been replaced or removed meanwhile; start again to see "
                "what is there now."
            )
        return pq.ParquetFile(self._path, metadata=self._footer)
