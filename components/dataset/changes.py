"""What differs between two data sets, file by file: what became of each, and every value of it.

A file is known by its name; what is new under one name and gone under another, with the
same bytes, was renamed. Nothing is decoded, and the shards are read only where the index does not
say enough: for the bytes' hashes of what is new or gone, and for masks.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import read_index, read_table
from image_pipeline.components.dataset.index_file import INDEX_SCHEMA, MASK_FIELDS, index_schema
from image_pipeline.components.dataset.lists import Duplicate, Quarantined, Skipped, read_list
from image_pipeline.components.dataset.manifest import Manifest, read_whole_manifest
from image_pipeline.components.dataset.paths import is_kept
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.json_text import flatten
from image_pipeline.components.names import decode_name

NEW, GONE, RENAMED, CONTENT = "new", "gone", "renamed", "other bytes"
RELABELLED, MOVED, STORED, COLUMNS = (
    "relabelled",
    "other split",
    "stored otherwise",
    "other columns",
)
KINDS = (NEW, GONE, RENAMED, CONTENT, RELABELLED, MOVED, STORED, COLUMNS)
"""What can have happened to a file, several of them at once."""

_RECORD = "record"
_STATE, _CONTENT, _MASK, _SPLIT = "became", "content", "mask", "split"
_LOCATION = {"shard", "record_offset", "record_length", "payload_offset"}
_ID = "record_id"  # a hash of the name and the bytes of a file
_OF_STORED = set(INDEX_SCHEMA.names) - _LOCATION - {_SPLIT, _ID, "label", "group", "source"}
_SAID_OF_NEW = (_SPLIT, "label", "tags", "value")
_NAMES = {"source", "mask_source"}
_OF_MASK = {field.name for field in MASK_FIELDS} - _NAMES
_ANNOTATIONS = {"label", "tags", "value", _MASK, *_OF_MASK}
_ROWS = 1 << 14  # of a list that are Python's objects at once


@dataclasses.dataclass(frozen=True)
class Change:
    """A file that is not in both data sets, or not as it was.

    Attributes:
      path: its name in the later data set, as the index has it; None if it is gone.
      was: its name in the earlier one; None if it is new.
      kinds: what happened to it, of `KINDS`; nothing if it is not a record in either.
      values: of what differs, the value before and now, None where there is none: of `became` (of a
        record, "record"; else "duplicate of …", "quarantined: …" or "skipped: …"), of `content`
        (the SHA-256 of the file's bytes), of `mask` (if its pixels differ, though not how many each
        class has: its stored bytes), and of the columns of `index.parquet`.
    """

    path: str | None
    was: str | None
    kinds: tuple[str, ...]
    values: Mapping[str, tuple[Any, Any]]

    @property
    def name(self) -> str:
        """Its name now, or the one it had."""
        return self.path or self.was or ""


@dataclasses.dataclass(frozen=True)
class Changes:
    """What differs between two data sets.

    Attributes:
      records: how many the earlier and the later one have.
      counts: how many files each of `KINDS` is said of.
      options: of ingest, those that differ, by name: before and now.
      files: what differs, sorted by name; a few hundred bytes of memory each.
    """

    records: tuple[int, int]
    counts: Mapping[str, int]
    options: Mapping[str, tuple[Any, Any]]
    files: Sequence[Change]


class _Side:
    """One of the data sets."""

    def __init__(self, data_dir: str, is_whole: bool):
        self.is_whole = is_whole
        self.manifest = read_whole_manifest(data_dir)
        shards = self.manifest.list_shards()
        paths = [files.join(data_dir, shard.file) for _, _, shard in shards]
        names = index_schema(self.manifest.columns).names
        self.table = read_table(paths, names)  # A row for each of the index's.
        said = [name for name in _SAID_OF_NEW if name in self.table.column_names]
        self._said = {name: self.table[name] for name in said}
        self.sources = self.table["source"].cast(pa.large_string())
        self.records = StoredRecords(read_index(paths))
        # Of the files that did not become records: what became of them, by their names.
        self.states: dict[str, str] = {}
        if not is_whole:
            return
        for copy in read_list(data_dir, Duplicate):
            if not copy.written:
                original = decode_name(copy.original)
                self.states[decode_name(copy.path)] = f"duplicate of {original}"
        for bad in read_list(data_dir, Quarantined):
            self.states[decode_name(bad.path)] = f"quarantined: {bad.reason}"
        for skipped in read_list(data_dir, Skipped) if self.manifest.books.skipped else ():
            self.states[decode_name(skipped.path)] = f"skipped: {skipped.kind}"

    def find(self, names: pa.ChunkedArray) -> np.ndarray:
        """The row of each name: int64 [n], -1 where it is not a record's."""
        found = pc.index_in(names, self.sources.combine_chunks())
        return pc.fill_null(found, -1).to_numpy().astype(np.int64)

    def take(self, name: str, rows: np.ndarray) -> pa.ChunkedArray:
        """A column's values at some rows; a column that there is not has none."""
        if name not in self.table.column_names:
            return pa.chunked_array([pa.nulls(len(rows))])
        return self.table[name].take(pa.array(rows))

    def name_all(self, rows: np.ndarray) -> dict[int, str]:
        """The names of some records' files, by their rows (int64 [n])."""
        return dict(zip(rows.tolist(), self.take("source", rows).to_pylist(), strict=True))

    def hash_all(self, rows: Sequence[int]) -> list[str | None]:
        """The SHA-256 of the bytes of some records' files; None without shards."""
        if not (self.is_whole and rows):
            return [None] * len(rows)
        entries = self.records.index.locate(np.array(rows))
        return [record.read_sha256(self.records.read(entry)) for entry in entries]

    def values_of(self, row: int) -> dict[str, Any]:
        """What is said of a record that the other data set does not have."""
        values = {name: column[row].as_py() for name, column in self._said.items()}
        return {name: value for name, value in values.items() if value not in (None, "")}


def find_changes(before_dir: str, now_dir: str, reads_masks: bool = True) -> Changes:
    """Compares two data sets; their indices are held in memory, about 100 bytes a record.

    Of a version that was replaced only the index is there. Then a renamed file is one that is gone
    and one that is new, no bytes and masks are compared, and what is not a record is left out.

    Args:
      before_dir: the earlier one.
      now_dir: the later one.
      reads_masks: whether masks are read of which the index says the same; else they count as such.

    Raises:
      UserError: if one is not a whole data set, or damaged where it is read.
    """
    are_whole = not (is_kept(before_dir) or is_kept(now_dir))
    before, now = (_Side(data_dir, are_whole) for data_dir in (before_dir, now_dir))
    old_of = before.find(now.sources)
    rows = np.flatnonzero(old_of >= 0)
    found = _compare(before, now, old_of[rows], rows, reads_masks and are_whole)
    replaced = [row for row, own in found.items() if own.pop(_ID, None)]
    both = before.hash_all(old_of[replaced].tolist()), now.hash_all(replaced)
    for row, old, new in zip(replaced, *both, strict=True):
        found[row][_CONTENT] = old, new
        for name in _OF_STORED.intersection(found[row]):  # That goes without saying.
            del found[row][name]
    names = now.name_all(np.array([*found], int))
    changes = [_judge(names[row], names[row], own) for row, own in found.items()]
    changes += _pair(before, now, old_of)
    changes += _compare_others(before, now)
    changes.sort(key=lambda change: change.name)
    counted = collections.Counter(kind for change in changes for kind in change.kinds)
    return Changes(
        (len(before.table), len(now.table)),
        {kind: counted[kind] for kind in KINDS},
        _compare_options(before.manifest, now.manifest),
        changes,
    )


def _judge(path: str | None, was: str | None, values: Mapping[str, tuple[Any, Any]]) -> Change:
    """Says what happened to a file by what differs of it."""
    became = values.get(_STATE, (_RECORD, _RECORD))
    if became != (_RECORD, _RECORD):
        kinds = {GONE} if became[0] == _RECORD else {NEW} if became[1] == _RECORD else set()
        return Change(path, was, tuple(kinds), values)
    kinds = {RENAMED} if path != was else set()
    # A mask that is stored at another size has other pixels for that.
    of_stored = _OF_STORED | _OF_MASK if {"height", "width"} & values.keys() else _OF_STORED
    for name in values:
        if name == _CONTENT:
            kinds.add(CONTENT)
        elif name in of_stored:
            kinds.add(STORED)
        elif name in _ANNOTATIONS or name.startswith("box_"):
            kinds.add(RELABELLED)
        else:
            kinds.add(MOVED if name == _SPLIT else COLUMNS)
    return Change(path, was, tuple(kind for kind in KINDS if kind in kinds), values)


def _at(column: pa.ChunkedArray, row: int) -> Any:
    """A value as JSON has it: a number that is missing is not one."""
    value = column[row].as_py()
    return None if value != value else value


def _compare(
    before: _Side,
    now: _Side,
    old_rows: np.ndarray,
    rows: np.ndarray,
    reads_masks: bool = True,
) -> dict[int, dict[str, tuple[Any, Any]]]:
    """Of each pair of records that differs, by its row now: what differs, and both values."""
    found: dict[int, dict[str, tuple[Any, Any]]] = collections.defaultdict(dict)
    for name, row, values in _compare_columns(before, now, old_rows, rows):
        found[row][name] = values
    if reads_masks:
        for row, values in _compare_masks(before, now, old_rows, rows, found):
            found[row][_MASK] = values
    return found


def _compare_columns(
    before: _Side, now: _Side, old_rows: np.ndarray, rows: np.ndarray
) -> Iterator[tuple[str, int, tuple[Any, Any]]]:
    """Each column that differs, the row now, and both values."""
    names = dict.fromkeys([*before.table.column_names, *now.table.column_names])
    for name in [each for each in names if each not in _LOCATION | _NAMES]:
        old, new = before.take(name, old_rows), now.take(name, rows)
        for number in _find_differing(old, new):
            values = _at(old, number), _at(new, number)
            if values != (None, None):  # A number that is missing, of a column that is new.
                yield name, int(rows[number]), values


def _find_differing(old: pa.ChunkedArray, new: pa.ChunkedArray) -> Iterable[int]:
    """The numbers of the values that are not equal; not-a-number equals itself."""
    if pa.types.is_list(new.type) or old.type != new.type:
        spans = range(0, len(new), _ROWS)
        blocks = ((old.slice(n, _ROWS).to_pylist(), new.slice(n, _ROWS).to_pylist()) for n in spans)
        pairs = itertools.chain.from_iterable(zip(*both, strict=True) for both in blocks)
        # In a list, not-a-number is equal to itself in its text alone.
        differ = (one != other and repr(one) != repr(other) for one, other in pairs)
        return [number for number, differs in enumerate(differ) if differs]
    equal = pc.or_(pc.fill_null(pc.equal(old, new), False), pc.and_(old.is_null(), new.is_null()))
    if pa.types.is_floating(new.type):
        equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(old), pc.is_nan(new)), False))
    return np.flatnonzero(~equal.to_numpy()).tolist()


def _compare_masks(
    before: _Side,
    now: _Side,
    old_rows: np.ndarray,
    rows: np.ndarray,
    found: Mapping[int, Mapping[str, Any]],
) -> Iterator[tuple[int, tuple[str, str]]]:
    """The masks that differ though the index says the same of them: read, byte by byte."""
    if not all(set(side.table.column_names) >= _OF_MASK for side in (before, now)):
        return
    for old_row, row in zip(old_rows.tolist(), rows.tolist(), strict=True):
        if not (_OF_MASK | {"height", "width"}) & found.get(row, {}).keys():
            old, new = before.records.read_mask(old_row), now.records.read_mask(row)
            if old != new:
                yield row, (f"{len(old):,} bytes", f"{len(new):,} other bytes")


def _pair(before: _Side, now: _Side, old_of: np.ndarray) -> Iterator[Change]:
    """The records of which only one data set has the name.

    Those of equal bytes were renamed, if the other data set does not know their names at all: what
    was, or is now, a copy was not.
    """
    gone_rows = np.ones(len(before.table), bool)
    gone_rows[old_of[old_of >= 0]] = False
    was = before.name_all(np.flatnonzero(gone_rows))
    names = now.name_all(np.flatnonzero(old_of < 0))
    listed = [row for row, path in was.items() if path in now.states]
    left = [row for row, path in was.items() if path not in now.states]
    gone: dict[str | None, collections.deque[int]] = collections.defaultdict(collections.deque)
    for row, content in zip(left, before.hash_all(left), strict=True):
        gone[content].append(row)
    unknown = [row for row, path in names.items() if path not in before.states]
    may_be_renamed = unknown if gone and now.is_whole else []
    renamed: dict[int, int] = {}
    for row, content in zip(may_be_renamed, now.hash_all(may_be_renamed), strict=True):
        if same := gone[content]:
            renamed[row] = same.popleft()
    for row in [each for each in names if each not in renamed]:
        path, state = names[row], before.states.get(names[row])
        said = {name: (None, value) for name, value in now.values_of(row).items()}
        yield _judge(path, None if state is None else path, {_STATE: (state, _RECORD), **said})
    old_rows, rows = (np.array([*each], int) for each in (renamed.values(), renamed))
    found = _compare(before, now, old_rows, rows)
    for row, old in renamed.items():
        values = {name: both for name, both in found.get(row, {}).items() if name != _ID}
        yield _judge(names[row], was[old], values)
    for row in itertools.chain(listed, *gone.values()):
        path, state = was[row], now.states.get(was[row])
        said = {name: (value, None) for name, value in before.values_of(row).items()}
        yield _judge(None if state is None else path, path, {_STATE: (_RECORD, state), **said})


def _compare_others(before: _Side, now: _Side) -> Iterator[Change]:
    """The files that are records in neither and changed in another way."""
    listed = sorted(before.states.keys() | now.states.keys())
    names = pa.chunked_array([pa.array(listed, pa.large_string())])
    are_records = [side.find(names) >= 0 for side in (before, now)]
    for number, path in enumerate(listed):
        old, new = before.states.get(path), now.states.get(path)
        if old != new and not (are_records[0][number] or are_records[1][number]):
            yield _judge(new and path, old and path, {_STATE: (old, new)})


def _compare_options(before: Manifest, now: Manifest) -> dict[str, tuple[Any, Any]]:
    old, new = (flatten(manifest.options) for manifest in (before, now))
    return {
        name: (old.get(name), new.get(name))
        for name in sorted(old | new)
        if old.get(name) != new.get(name)
    }
