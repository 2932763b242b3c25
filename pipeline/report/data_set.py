"""A data set opened for a report: its index in memory, its images by random access."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components import files
from image_pipeline.components.arrays.in_place import fetch
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import RecordIndex, find_index, read_table
from image_pipeline.components.dataset.index_file import index_name
from image_pipeline.components.dataset.licences import find_attribution, find_licence
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.paths import parse_split
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.images import load_mask
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import BOXES, CLASSES, MASKS, TAGS, VALUES, find_kind
from image_pipeline.components.names import decode_name
from image_pipeline.components.threads import usable_cores
from image_pipeline.components.views.fast_decode import decode_image
from image_pipeline.show.overlays import NamedBoxes, lay_over, make_colors, show_values
from image_pipeline.show.words import count_names, format_fact

SOURCE_COLUMNS = (
    *("source", "source_format", "source_bytes", "source_height", "source_width"),
    *("orientation", "notes", "format", "group"),
)


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A data set.

    Attributes:
      splits: the names of the splits that hold records.
      table: `SOURCE_COLUMNS`, and those of labels and licences; a row for each record.
      split: int8 [records], number of the record's split in `splits`.
      records: reads records by their row.
      mask_colors: uint8 [256, 3], of each id of masks; None without masks.
      label: the column of labels that are not classes.
    """

    splits: tuple[str, ...]
    index: RecordIndex
    table: pa.Table
    split: np.ndarray
    records: StoredRecords
    mask_colors: np.ndarray | None = None
    label: record.Column | None = None
    kind: LabelKind = CLASSES

    @property
    def tags(self) -> pa.ListArray | None:
        """The tags of each record; None where labels are not tags."""
        return self._read_label(TAGS)

    @property
    def values(self) -> np.ndarray | None:
        """Float64 [records], the value of each; None where labels are not values."""
        found = self._read_label(VALUES)
        return None if found is None else found.to_numpy()

    @property
    def names(self) -> pa.ListArray | None:
        """The tags of each record, or the classes of its boxes; None if it has neither."""
        if self.kind is BOXES:
            return self.table[index_name(record.BOX_TEXT)].combine_chunks()
        return self.tags

    def _read_label(self, kind: LabelKind) -> pa.Array | None:
        if self.label is None or self.label not in kind.columns:
            return None
        return self.table[index_name(self.label)].combine_chunks()

    @property
    def channels(self) -> int:
        """Of pictures: 3 if any image has colour, or three channels of another kind; else 1."""
        return 3 if self.index.channels.max() >= 3 else 1

    @property
    def is_scaled(self) -> bool:
        """Whether pictures are of other values than 8-bit gray or RGB."""
        return self.index.dtype != "uint8" or int(self.index.channels.max()) not in (1, 3)

    def read_pixels(self, row: int) -> np.ndarray:
        """Decodes a stored image, see `show_values`: uint8 [height, width, channels].

        Raises:
          ValueError: if it cannot be decoded.
          UserError: if its shard is damaged.
        """
        image = fetch(self.records.read_image(row))
        return show_values(decode_image(image, image.channels if self.is_scaled else self.channels))

    def read_shown(self, row: int) -> np.ndarray:
        """A stored image as people are shown it, under its mask's colours; as `read_pixels`."""
        pixels = self.read_pixels(row)
        if self.mask_colors is None:
            return pixels
        return lay_over(pixels, load_mask(self.records, row), self.mask_colors)

    def find_rows(self, sources: Iterable[str]) -> dict[str, int]:
        """The rows of the records made from these files, by `decode_name` of their paths."""
        wanted = pa.array(sorted({decode_name(path) for path in sources}), pa.string())
        rows = np.flatnonzero(pc.is_in(self.table["source"], wanted).to_numpy())
        names = self.table["source"].take(pa.array(rows)).to_pylist()
        return dict(zip(names, rows.tolist(), strict=True))

    def find_ids(self, record_ids: Iterable[str]) -> dict[str, int]:
        """The rows of the records with these ids, of 32 hexadecimal digits each."""
        wanted = {bytes.fromhex(each): each for each in record_ids}
        ids = np.ascontiguousarray(self.index.record_id).view("V16").ravel()
        rows = np.flatnonzero(np.isin(ids, np.array([*wanted], "V16")))
        return {wanted[ids[row].tobytes()]: int(row) for row in rows}

    def split_of(self, row: int) -> str:
        """The name of a record's split."""
        return self.splits[self.split[row]]

    def name_source(self, row: int) -> str:
        """The path of a record's source below the images folder."""
        return self.table["source"][row].as_py()

    def say_label(self, row: int) -> str:
        """A record's labels: its class, tags, value or boxes; "" for none."""
        if self.kind is BOXES:
            return count_names(self.read_boxes(row).names)
        if self.label is None:
            return self.index.classes[self.index.label[row]]
        cell = self._cell(self.label, row)
        return ", ".join(cell) if isinstance(cell, list) else format_fact(cell)

    def list_names(self, row: int) -> list[str]:
        """A record's class, its tags, or the classes of its boxes, each once; none of a value."""
        if self.names is not None:
            return sorted(set(self.names[row].as_py()))
        return [] if self.label is not None else [self.index.classes[self.index.label[row]]]

    def read_boxes(self, row: int) -> NamedBoxes:
        """The boxes of a record; those of crowds say so."""
        *sides, ids, crowds = (self._cell(column, row) for column in BOXES.columns)
        return NamedBoxes.of_record(sides, ids, self._cell(record.BOX_TEXT, row), crowds)

    @property
    def threads(self) -> int:
        """How many records to read side by side: more in a store, where each is a request."""
        return max(usable_cores() + 1, files.count_threads(self.index.roots[0]))

    def _cell(self, column: record.Column, row: int) -> Any:
        return self.table[index_name(column)][row].as_py()

    def choose_rows(self, most: int, among: np.ndarray | None = None) -> np.ndarray:
        """Chooses records by their ids, which are hashes: always the same ones, spread evenly.

        Args:
          most: how many to choose; all of them if there are fewer.
          among: rows of the index, int64 [n]; None for all.

        Returns:
          int64 [up to most], rows of the index, sorted.
        """
        rows = np.arange(len(self.index)) if among is None else among
        if len(rows) <= most:
            return rows
        first = np.ascontiguousarray(self.index.record_id[rows, :8]).view(">u8").ravel()
        return np.sort(rows[np.argsort(first, kind="stable")[:most]])


def open_data_set(data_dir: str, manifest: Manifest) -> DataSet:
    """Reads the index.

    Raises:
      UserError: if the data set has no index, or has no record.
    """
    filled = {name: split for name, split in manifest.splits.items() if split.records}
    paths = [
        files.join(data_dir, shard.file)
        for split in filled.values()
        for shard in split.shards
        if shard.records
    ]
    index = find_index(paths)
    if index is None:
        raise UserError(
            f"a report needs a data set with records and an index, but {data_dir} is not one; "
            "ingest again."
        )
    splits = tuple(filled)
    own = [] if manifest.label is None else [manifest.label]
    kind = find_kind(manifest.columns)
    own += record.BOX_COLUMNS if kind is BOXES else []
    said = [find_licence(manifest.further), *find_attribution(manifest.further)]
    names = [*SOURCE_COLUMNS, *map(index_name, own), *filter(None, said)]
    of_shard = np.array([splits.index(parse_split(path)) for path in index.shard_paths], np.int8)
    return DataSet(
        splits=splits,
        index=index,
        table=read_table(index.shard_paths, names),
        split=of_shard[index.shard],
        records=StoredRecords(index),
        mask_colors=make_colors(manifest.options.get("masks")) if kind is MASKS else None,
        label=manifest.label,
        kind=kind,
    )
