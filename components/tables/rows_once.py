"""The rows of tables, read once however often they are asked for."""

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from image_pipeline.components.sources.file_names import name_tables
from image_pipeline.components.sources.folder import locate
from image_pipeline.components.sources.options import TableOptions
from image_pipeline.components.sources.rows import Row
from image_pipeline.components.sources.source_kinds import (
    Files,
    kind_of,
    list_tables,
    read_rows,
)
from image_pipeline.components.spool import Spool
from image_pipeline.components.tables.joined_rows import join_rows, needs_joining


class TableRows:
    """The rows of a table, or of all tables of a pattern or a data set."""

    def __init__(
        self, path: str, options: TableOptions, rows: Iterable[tuple[int, Row]] | None = None
    ):
        """Reads nothing yet.

        Args:
          path: of the table, or a pattern of one a split.
          options: what is known of the columns, by what they are: of arrays, it decides which are
            read, and how; and the shape of pixels that do not say it.
          rows: what stands for the tables' own, each with the number of its table.
        """
        self._path, self._columns = path, dict(options.columns)
        self._shape = options.pixel_shape or ()
        self._rows = Spool(self._read() if rows is None else rows)
        self._joined: tuple[Any, TableRows] | None = None

    @functools.cached_property
    def tables(self) -> Files:
        """The tables, and the split that each one's name names; raises as `list_tables`."""
        return list_tables(self._path)

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        """Each row, with the number of its table. Raises UserError if a table cannot be read."""
        return iter(self._rows)

    def with_paths(self) -> Iterator[tuple[str, Row]]:
        """Each row, with its table's path and line, for messages: `tables/train.csv:17`."""
        for number, row in self:
            yield f"{self.tables[number][0]}:{row.line}", row

    def with_names(self) -> Iterator[tuple[str, str | None, Row]]:
        """Each row, with what it is called (`train.csv:17`), and the split of its table's name."""
        names = name_tables([path for path, _ in self.tables])
        for number, row in self:
            yield f"{names[number]}:{row.line}", self.tables[number][1], row

    def joined(self, options: TableOptions) -> "TableRows":
        """The rows with what the options join: rows of one image, columns of one label."""
        if not needs_joining(options):
            return self
        wanted: tuple[Any, ...] = (options.box_rows, options.run_lengths, options.label_columns)
        wanted += (options.path_ending, options.path_prefix, options.path_folders, options.root_dir)
        wanted += (options.columns, options.column_types)
        if self._joined is None or self._joined[0] != wanted:
            folder = kind_of(self._path).folder(self._path)
            root = locate(folder, options.root_dir) if options.root_dir else folder
            rows = join_rows(self, options, root, [split for _, split in self.tables])
            joined = TableRows(self._path, options, rows)
            joined.tables = self.tables
            self._joined = wanted, joined
        return self._joined[1]

    def of_options(self, options: TableOptions) -> "TableRows":
        """The rows as they are read once the columns and the shape of pixels are known.

        They are read again for arrays only, or by another shape.
        """
        is_same = options.columns == self._columns or not kind_of(self._path).reads_asked
        is_same &= (options.pixel_shape or ()) == self._shape
        return self if is_same else TableRows(self._path, options)

    def _read(self) -> Iterator[tuple[int, Row]]:
        for number, (path, _) in enumerate(self.tables):
            for row in read_rows(path, self._columns, self._shape):
                yield number, row
