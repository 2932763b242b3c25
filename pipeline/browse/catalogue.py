"""A data set's records and rejected files under one numbering, found by search, page by page."""

import collections
import functools
import threading
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.browse.index_rows import IndexRows
from image_pipeline.browse.labels import find_labels
from image_pipeline.browse.query import SEARCHED, Query, match, sort_keys
from image_pipeline.browse.rejected import list_rejected
from image_pipeline.components.dataset.manifest import Manifest

# Searches whose results are kept, each 8 bytes for every row found.
_MOST_KEPT = 8
_REJECTED_TYPES = {
    "source": pa.string(),
    "split": pa.string(),
    "notes": pa.list_(pa.string()),
    "source_height": pa.int32(),
    "source_width": pa.int32(),
    "source_bytes": pa.int64(),
}


class Catalogue:
    """What there is in a data set; threads may share it.

    Records have the numbers of their rows in the index; after them come the rejected files. The
    index stays on the disk, and is read from its beginning to its end for a search.

    Attributes:
      rows: of the records.
      rejected: rows of the other files, see `list_rejected`.
      labels: what images are said to be.
    """

    def __init__(self, data_dir: str, manifest: Manifest):
        """Opens a data set; raises UserError if its index was changed."""
        self.rows = IndexRows(data_dir, manifest)
        self.rejected = list_rejected(data_dir, manifest)
        self.labels = find_labels(manifest)
        self._manifest = manifest
        self._found: collections.OrderedDict[Any, np.ndarray] = collections.OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The number of records and rejected files."""
        return len(self.rows) + len(self.rejected)

    def find(self, query: Query, marks: Collection[str] = frozenset()) -> np.ndarray | range:
        """The numbers of all that a search finds, in its order.

        Args:
          query: the search.
          marks: the marked paths.

        Returns:
          int64 [found], or a range of all.
        """
        if query.finds_all and query.order == "stored":
            return range(len(self))
        key = (query, frozenset(marks) if query.marked else None)
        with self._lock:
            if key not in self._found:
                self._found[key] = self._search(query, marks)
            self._found.move_to_end(key)
            while len(self._found) > _MOST_KEPT:
                self._found.popitem(last=False)
            return self._found[key]

    def read(self, number: int) -> dict[str, Any]:
        """All that is known of a record (its row of the index) or of a rejected file.

        Raises:
          IndexError: if there is no such number.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"numbers are from 0 to {len(self) - 1}, got {number}.")
        if number >= len(self.rows):
            return self.rejected[number - len(self.rows)]
        return {"state": "stored", **self.rows.read([number])[0]}

    def read_page(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """What a page shows of some numbers, in their order.

        Returns:
          For each `number`, `path`, `label`, `split`, `state`, `reason`, `height`, `width` and
          `bytes`, of the source; None where that is not known.
        """
        stored = [number for number in numbers if number < len(self.rows)]
        columns = [*dict.fromkeys([*SEARCHED, self.labels.column])]
        rows = dict(zip(stored, self.rows.read(stored, columns), strict=True))
        return [
            self._describe(number, rows.get(number) or self.rejected[number - len(self.rows)])
            for number in numbers
        ]

    @functools.cached_property
    def choices(self) -> dict[str, list[tuple[str, int]]]:
        """What may be searched for, with how often it occurs where that is known, else 0."""
        notes, labels = collections.Counter[str](), collections.Counter[str]()
        counts_labels = not self.labels.names
        for table in self.rows.scan(["notes", self.labels.column]):
            _count(notes, table["notes"])
            if counts_labels:
                _count(labels, table[self.labels.column])
        states = collections.Counter({"stored": len(self.rows)})
        for row in self.rejected:
            states[row["state"]] += 1
            notes.update(row["notes"])
        named = [(name, 0) for name in self.labels.names]
        return {
            "labels": named or sorted(labels.items()),
            "splits": [(name, own.records) for name, own in self._manifest.splits.items()],
            "states": [(name, count) for name, count in states.items() if count],
            "reasons": sorted(notes.items(), key=lambda item: (-item[1], item[0])),
        }

    def _describe(self, number: int, row: dict[str, Any]) -> dict[str, Any]:
        said = self.labels.say(row.get(self.labels.column))
        return {
            "number": number,
            "path": row["source"],
            "label": said or row.get("label") or "",
            "split": row.get("split"),
            "state": row.get("state", "stored"),
            "reason": ", ".join(row["notes"] or ()),
            "height": row.get("source_height"),
            "width": row.get("source_width"),
            "bytes": row["source_bytes"],
        }

    def _search(self, query: Query, marks: Collection[str]) -> np.ndarray:
        found, keys = [np.zeros(0, np.int64)], []
        for first, table in self._list_tables(query):
            places = match(table, self.labels, query, marks)
            found.append(places + first)
            if query.order != "stored" and len(places):
                keys.append(sort_keys(table.take(pa.array(places)), query.order))
        numbers = np.concatenate(found)
        # Stable: of what is alike, the first number comes first.
        return numbers[pc.array_sort_indices(pa.concat_arrays(keys))] if keys else numbers

    def _list_tables(self, query: Query) -> Iterator[tuple[int, pa.Table]]:
        """What is searched, with the number of each table's first row."""
        first, columns = 0, [*dict.fromkeys([*SEARCHED, self.labels.column])]
        if query.state in ("", "stored"):
            for table in self.rows.scan(columns):
                yield first, table
                first += len(table)
        if query.state != "stored" and self.rejected:
            yield len(self.rows), self._rejected_table

    @functools.cached_property
    def _rejected_table(self) -> pa.Table:
        """The rejected files with the columns that are searched; only classes are known of them."""
        types = _REJECTED_TYPES | {"state": pa.string()}
        columns = {
            name: pa.array([row.get(name) for row in self.rejected], type_)
            for name, type_ in types.items()
        }
        labels = pa.array([row["label"] for row in self.rejected], pa.string())
        is_class = self.labels.column == "label"
        of_records = pa.nulls(len(self.rejected), pa.list_(pa.string()))
        return pa.table(columns | {self.labels.column: labels if is_class else of_records})


def _count(counts: collections.Counter[str], column: pa.ChunkedArray) -> None:
    """Counts the texts of a column, or those in its lists; numbers are not counted."""
    values = column.combine_chunks()
    values = pc.list_flatten(values) if pa.types.is_list(values.type) else values
    if pa.types.is_string(values.type):
        for each in pc.value_counts(values.drop_null()):
            counts[each["values"].as_py()] += each["counts"].as_py()
