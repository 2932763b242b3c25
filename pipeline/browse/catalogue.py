"""A data set's records and rejected files under one numbering: searched, and read page by page.

Records have the numbers of their rows in the index; after them come the rejected files. The index
stays on the disk: a search reads it from its beginning to its end, a page only the shards' parts of
it that have the page's rows.
"""

import collections
import functools
import threading
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pydantic

from image_pipeline.components import files
from image_pipeline.components.dataset import index_file, record, tfrecord
from image_pipeline.components.dataset.lists import Duplicate, Quarantined, Skipped, read_list
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.paths import INDEX
from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.kinds import MASKS, find_kind
from image_pipeline.components.names import decode_name, printable
from image_pipeline.components.trees import fetch_file
from image_pipeline.show.words import count_names, format_fact

Side = Annotated[int, pydantic.Field(ge=0, lt=2**31)]  # as the index holds it
Order = Literal["stored", "path", "smallest", "largest", "bytes"]
ORDERS = get_args(Order)
_SEARCHED = ("source", "split", "notes", "source_height", "source_width", "source_bytes")
# Searches whose results are kept, each 8 bytes for every row found.
_MOST_KEPT = 8
_NO_ID = -1  # no row holds it


class Query(pydantic.BaseModel):
    """A search; what is empty finds all.

    Attributes:
      path: a part of the path, in capital or small letters.
      label: a class, or one of a record's tags.
      split: of records.
      state: whether it is stored, and else why not.
      reason: why a file was rejected, or what was noted when an image was prepared.
      least_px: the shorter side of the source is at least so many pixels.
      most_px: its longer side is at most so many.
      marked: only what is marked.
      order: by shard and position, by path, by number of pixels, or the greatest files first.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    path: str = ""
    label: str = ""
    split: str = ""
    state: Literal["", "stored", "quarantined", "duplicate", "skipped"] = ""
    reason: str = ""
    least_px: Side | None = None
    most_px: Side | None = None
    marked: bool = False
    order: Order = "stored"


class Catalogue:
    """What there is in a data set; threads may share it.

    Reading raises UserError once the data set has been replaced.
    """

    def __init__(self, data_dir: str, manifest: Manifest):
        """Reads the footer of the index, and the lists of rejected files.

        Raises:
          UserError: if one of them was changed since ingest wrote it.
        """
        index_file.check_index(data_dir)
        self.data_dir, self.manifest = data_dir, manifest
        self._path = fetch_file(files.join(data_dir, INDEX))
        with index_file.reading_index(data_dir):
            self._stat = files.stat_file(self._path)
            self._footer = pq.read_metadata(self._path)
        groups = map(self._footer.row_group, range(self._footer.num_row_groups))
        self._ends = np.cumsum([group.num_rows for group in groups], dtype=int)
        self.records = self._footer.num_rows
        self.rejected = list_rejected(data_dir, manifest)
        # The index has labels as names, numbers, or lists of names or of ids.
        kind = find_kind(manifest.columns)
        self._names: Sequence[str] = ()
        self._ids: dict[Any, str] = {}
        self._ignored = record.IGNORED if kind is MASKS else None
        if kind.moves:
            self._label = "mask_ids" if kind is MASKS else index_file.index_name(record.BOX_LABEL)
            self._names = kind.class_names(manifest)
            self._ids = dict(enumerate(self._names, 0 if kind is MASKS else 1))
        elif manifest.label is not None:  # No manifest lists tags.
            self._label = index_file.index_name(manifest.label)
        else:
            self._label, self._names = "label", manifest.class_names
        self._columns = [*dict.fromkeys([*_SEARCHED, self._label])]
        fields = map(self._footer.schema.to_arrow_schema().field, [*self._columns, "record_id"])
        schema = pa.schema([("state", pa.string()), *fields])
        self._rejected_table = pa.Table.from_pylist(self.rejected, schema)
        self._lock = threading.Lock()
        self._search_once = functools.lru_cache(_MOST_KEPT)(self._search)

    def __len__(self) -> int:
        return self.records + len(self.rejected)

    def find(self, query: Query, marks: Collection[str] = frozenset()) -> np.ndarray | range:
        """The numbers of all that a search finds, in its order: int64 [n], or a range of all."""
        if query == Query():
            return range(len(self))
        with self._lock:
            return self._search_once(query, frozenset(marks if query.marked else ()))

    def find_values(self, column: str, values: Sequence[str]) -> dict[str, int]:
        """The numbers of the first rows whose `source` or `record_id` is one of these values."""
        found: dict[str, int] = {}
        for first, table in self._scan([column]):
            indices = np.flatnonzero(pc.is_in(table[column], value_set=pa.array(values)))
            for index in indices.tolist():
                found.setdefault(table[column][index].as_py(), first + index)
        return found

    def read(self, numbers: Sequence[int], columns: list[str] | None = None) -> list[dict]:
        """What is known of records (their rows of the index) or of rejected files, and `state`.

        Raises:
          IndexError: if there is no such number.
        """
        if bad := [number for number in numbers if not 0 <= number < len(self)]:
            raise IndexError(f"numbers are from 0 to {len(self) - 1}, got {bad[0]}.")
        stored = np.array([number for number in numbers if number < self.records], int)
        found: dict[int, dict[str, Any]] = {}
        groups, file = np.searchsorted(self._ends, stored, side="right"), self._open()
        for group in np.unique(groups).tolist():
            own = stored[groups == group]
            start = self._ends[group] - self._footer.row_group(group).num_rows
            with index_file.reading_index(self.data_dir):
                rows = file.read_row_group(group, columns=columns)
            rows = index_file.check_rows(self.data_dir, rows).take(pa.array(own - start))
            found |= zip(own.tolist(), rows.to_pylist(), strict=True)
        return [
            {"state": "stored", **found[number]}
            if number in found
            else self.rejected[number - self.records]
            for number in numbers
        ]

    def read_record(self, row: dict[str, Any]) -> bytes:
        """The record of a row: a serialized tf.train.Example, with its checksums verified.

        Raises:
          UserError: if it is damaged.
        """
        start = row["record_offset"]
        end = start + tfrecord.HEADER_BYTES + row["record_length"] + tfrecord.FOOTER_BYTES
        path = self.find_shard(row)
        try:
            return tfrecord.unframe(files.read_file(path, start, end))
        except (tfrecord.CorruptRecord, OSError) as error:
            raise UserError(
                f"the record of {row['source']!r} in {path} is damaged ({error}); "
                f"`image-pipeline verify {self.data_dir}` lists all damage."
            ) from error

    def find_shard(self, row: dict[str, Any]) -> str:
        """The path of the shard that holds a row's record."""
        shard = self.manifest.splits[row["split"]].shards[row["shard"]]
        return files.join(self.data_dir, shard.file)

    def list_entries(self, numbers: Sequence[int], marks: Collection[str]) -> list[dict[str, Any]]:
        """What a page shows of some numbers, in their order; "" where something is not known."""
        entries = []
        for number, row in zip(numbers, self.read(numbers, self._columns), strict=True):
            sides = [row.get(name) for name in ("source_width", "source_height")]
            entry = {
                "path": row["source"],
                "label": self._say_label(row.get(self._label)),
                "split": row.get("split") or "",
                "state": row["state"],
                "reason": ", ".join(row["notes"] or ()),
                "size": "" if None in sides else f"{sides[0]:,} × {sides[1]:,} px",
            }
            shown = {name: printable(text) for name, text in entry.items()}
            entries.append({"number": number, **shown, "is_marked": row["source"] in marks})
        return entries

    @functools.cached_property
    def choices(self) -> dict[str, list[tuple[str, int]]]:
        """What may be searched for, with how often it occurs where that is known, else 0."""
        notes, labels = collections.Counter[str](), collections.Counter[str]()
        for _, table in self._scan(["notes", self._label], "stored"):
            _count(notes, _leave_details_out(table["notes"]))
            if not self._names:
                _count(labels, table[self._label])
        states = collections.Counter({"stored": self.records})
        for row in self.rejected:
            states[row["state"]] += 1
            notes.update(row["notes"])
        return {
            "labels": [(name, 0) for name in self._names] or sorted(labels.items()),
            "splits": [(name, own.records) for name, own in self.manifest.splits.items()],
            "states": [(name, count) for name, count in states.items() if count],
            "reasons": sorted(notes.items(), key=lambda item: (-item[1], item[0])),
        }

    def _say_label(self, value: Any) -> str:
        """A row's value in words; "" if it has none."""
        if isinstance(value, list):
            kept = (each for each in value if each != self._ignored)
            return count_names(str(self._ids.get(each, each)) for each in kept)
        return "" if value is None else format_fact(value)

    def _search(self, query: Query, marks: frozenset[str]) -> np.ndarray:
        ids = {name: id_ for id_, name in self._ids.items()}
        label = ids.get(query.label, _NO_ID) if ids else query.label
        found, keys = [np.zeros(0, np.int64)], []
        for first, table in self._scan(self._columns, query.state):
            indices = match(table, query, self._label, label, marks)
            found.append(indices + first)
            if query.order != "stored" and len(indices):
                keys.append(sort_keys(table.take(pa.array(indices)), query.order))
        numbers = np.concatenate(found)
        # Stable: of what is alike, the first number comes first.
        return numbers[pc.array_sort_indices(pa.concat_arrays(keys))] if keys else numbers

    def _scan(self, columns: list[str], state: str = "") -> Iterator[tuple[int, pa.Table]]:
        """Columns of all that may be in a state, in parts, with the number of each one's first."""
        first = 0
        if state in ("", "stored"):
            with index_file.reading_index(self.data_dir):
                for batch in self._open().iter_batches(columns=columns):
                    table = pa.Table.from_batches([batch])
                    yield first, index_file.check_rows(self.data_dir, table)
                    first += len(batch)
        if state != "stored" and self.rejected:
            yield self.records, self._rejected_table

    def _open(self) -> pq.ParquetFile:
        try:
            is_same = files.stat_file(self._path) == self._stat
        except FileNotFoundError:
            is_same = False
        if not is_same:  # Its rows would be others, of other records.
            raise UserError(
                f"{self.data_dir!r} has been replaced or removed meanwhile; start again to see "
                "what is there now."
            )
        return pq.ParquetFile(self._path, metadata=self._footer)


def match(
    table: pa.Table, query: Query, label_column: str, label: str | int, marks: Collection[str]
) -> np.ndarray:
    """Finds the rows of a table that a search asks for.

    Args:
      table: what is searched; `state`, where there are several.
      query: the search; its `order` is not looked at.
      label_column: of texts, of lists of these or of ids, or of numbers, which are not searched.
      label: what of it is looked for, if the query has a label.
      marks: the marked paths.

    Returns:
      int64 [rows found], ascending.
    """
    conditions, sides = [], (table["source_height"], table["source_width"])
    if query.path:
        conditions.append(pc.match_substring(table["source"], query.path, ignore_case=True))
    if query.label:
        conditions.append(_has(table[label_column], label))
    if query.split:
        conditions.append(pc.equal(table["split"], query.split))
    if query.state and "state" in table.column_names:
        conditions.append(pc.equal(table["state"], query.state))
    if query.reason:
        named = query.reason.partition(":")[0]
        conditions.append(_has(_leave_details_out(table["notes"]), named))
    if query.least_px is not None:
        shorter = pc.min_element_wise(*sides, skip_nulls=False)
        conditions.append(pc.greater_equal(shorter, query.least_px))
    if query.most_px is not None:
        longer = pc.max_element_wise(*sides, skip_nulls=False)
        conditions.append(pc.less_equal(longer, query.most_px))
    if query.marked:
        conditions.append(pc.is_in(table["source"], value_set=pa.array(list(marks), pa.string())))
    found = np.ones(table.num_rows, bool)
    for each in conditions:
        found &= np.asarray(pc.fill_null(each, False))
    return np.flatnonzero(found)


def sort_keys(table: pa.Table, order: Order) -> Any:
    """What rows are sorted by, ascending: texts, or numbers of which the unknown come last."""
    if order == "path":
        return table["source"].combine_chunks()
    names = ("source_bytes",) if order == "bytes" else ("source_height", "source_width")
    numbers = functools.reduce(pc.multiply, (table[name].cast(pa.float64()) for name in names))
    numbers = numbers if order == "smallest" else pc.negate(numbers)
    return pc.fill_null(numbers, np.inf).combine_chunks()


def list_rejected(data_dir: str, manifest: Manifest) -> list[dict[str, Any]]:
    """What the lists beside the shards say of files without a record, as rows like the index's.

    Returns:
      A row for each quarantined file, each duplicate that was not written, and each skipped file:
      `state`, `source` (the path as the index would have it), `notes` (its reason), `message`, and
      as far as they are known `label`, `source_bytes` and `sha256`.
    """
    skipped = read_list(data_dir, Skipped) if manifest.books.skipped else []  # Else no such list.
    lines: list[tuple[str, Any, str, str]] = [
        *(
            ("quarantined", each, each.reason, each.message)
            for each in read_list(data_dir, Quarantined)
        ),
        *(
            ("duplicate", each, "duplicate", f"has the bytes of {each.original}")
            for each in read_list(data_dir, Duplicate)
            if not each.written
        ),
        *(("skipped", each, each.kind, each.message) for each in skipped),
    ]
    return [
        {
            "state": state,
            "source": decode_name(each.path),
            "label": getattr(each, "label", None),
            "notes": [reason],
            "message": message,
            "source_bytes": getattr(each, "bytes", None),
            "sha256": each.sha256 if state == "quarantined" else None,
        }
        for state, each, reason, message in lines
    ]


def _has(column: pa.ChunkedArray, value: str | int) -> Any:
    """Which rows are a text, or are lists that hold a value: bool [rows]; no numbers are."""
    if not pa.types.is_list(column.type):
        is_text = pa.types.is_string(column.type)
        return pc.equal(column, value) if is_text else pa.array(np.zeros(len(column), bool))
    listed = column.combine_chunks()
    is_equal = np.asarray(pc.fill_null(pc.equal(pc.list_flatten(listed), value), False))
    found = np.zeros(len(column), bool)
    found[np.asarray(pc.list_parent_indices(listed))[is_equal]] = True
    return pa.array(found)


def _leave_details_out(notes: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists of notes without what follows their colons: `frames`, of how many frames there are."""
    listed = notes.combine_chunks()
    named = pc.replace_substring_regex(listed.flatten(), pattern=":.*", replacement="")
    lengths = pc.fill_null(pc.list_value_length(listed), 0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.chunked_array([pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), named)])


def _count(counts: collections.Counter[str], column: pa.ChunkedArray) -> None:
    """Counts the texts of a column, or those in its lists; numbers are not counted."""
    values = column.combine_chunks()
    values = pc.list_flatten(values) if pa.types.is_list(values.type) else values
    if pa.types.is_string(values.type):
        for each in pc.value_counts(values.drop_null()):
            counts[each["values"].as_py()] += each["counts"].as_py()
