"""A table as source: a row for each image, which says where it is and what it is."""

import array
import collections
import dataclasses
import functools
import heapq
import itertools
import math
import os
import posixpath
import stat
import unicodedata
from collections.abc import Iterator
from typing import Any

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.dataset.record import ColumnType, order_names
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import show
from image_pipeline.components.names import decode_name, read_windows
from image_pipeline.components.sources.column_types import Items, Value, convert, convert_label
from image_pipeline.components.sources.file_names import SPLIT, ending_of
from image_pipeline.components.sources.folder import (
    NOT_A_FILE,
    OUTSIDE,
    Folder,
    find_cased,
    is_plain,
    leads_out,
    locate,
)
from image_pipeline.components.sources.options import TableOptions
from image_pipeline.components.sources.reading import IMAGE_ENDINGS, MISSING_FILE
from image_pipeline.components.sources.references import Annotations, ImageRef
from image_pipeline.components.sources.rows import EmbeddedImage, Row, Unusable
from image_pipeline.components.sources.source_kinds import kind_of, read_location
from image_pipeline.components.sources.understood import noticed
from image_pipeline.components.tables.rows_once import TableRows

_TEXTS = ("label", "group", "split")  # what of `ROLES` is not a path
_PATHS = ("image", "path", "mask")
_NO_PATH = (list, dict, Unusable)
_PATHS_AT_ONCE = 2**16
_MOST_FOLDERS = 1000  # in which images are looked for that no row names
_MOST_LABELS = 10  # that a message names
_MOST_CHARACTERS = 4096  # of a path: Linux has no longer ones, and no store


@dataclasses.dataclass(frozen=True)
class Table:
    """Tables and how they are read.

    Attributes:
      path: of the table; `{SPLIT}` in it stands for a split's name, one table for each.
      options: with all columns and types; see `complete_options`.
      follow_links: whether rows may lead out of the root, through links or not.
      rows: those of the tables, if they were read already; else they are when they are listed.
    """

    path: str
    options: TableOptions
    follow_links: bool = False
    rows: TableRows | None = None

    @functools.cached_property
    def root(self) -> str:
        """The folder that relative paths start from."""
        folder = kind_of(self.path).folder(self.path)
        same = (self.options.root_dir or "").partition(SPLIT)[0]
        root = same if same == self.options.root_dir else same.rpartition("/")[0]
        return locate(folder, root) if root else folder

    @functools.cached_property
    def _of_split(self) -> str:
        """What of `root_dir` is each split's own, `{SPLIT}` and what stands with it; else ""."""
        before, split, after = (self.options.root_dir or "").partition(SPLIT)
        return before.rpartition("/")[2] + split + after if split else ""

    @functools.cached_property
    def _prefix(self) -> str:
        """What whole paths of files in the root begin with."""
        return f"{files.make_absolute(self.root).rstrip('/')}/"

    @functools.cached_property
    def _read_once(self) -> TableRows:
        rows = self.rows or TableRows(self.path, self.options)
        return rows.joined(self.options)

    @functools.cached_property
    def _plain_folders(self) -> dict[str, bool]:
        """Whether the way to a folder below the root has no link, of those that were asked for."""
        return {}

    @functools.cached_property
    def _cased(self) -> dict[str, str]:
        """Paths whose files are called with other capital letters, and these."""
        return {}

    @functools.cached_property
    def _types(self) -> dict[str, ColumnType]:
        return self.options.further_types

    @functools.cached_property
    def _roles_as_paths(self) -> tuple[str, ...]:
        return tuple(role for role in _PATHS if self.options.columns.get(role) is not None)

    @functools.cached_property
    def _further(self) -> tuple[str, ...]:
        return tuple(order_names(self._types))

    @functools.cached_property
    def _roles_as_text(self) -> tuple[str, ...]:
        """The roles that a row names; tags and values are kept as further columns are."""
        columns = self.options.columns
        return tuple(role for role in _TEXTS if columns.get(role) and role not in self._types)

    def list(self) -> Iterator[ImageRef]:
        """Lists the images in the order of the rows.

        Raises:
          UserError: if a table cannot be read, or a row cannot be used and `bad_rows` is "error".
        """
        repeated = self._find_repeated()
        labels = self._read_labels(repeated) if repeated else {}
        first_rows: dict[str, str] = {}
        cased_before = set[str]()
        listed = array.array("q")
        for row_name, split, row in self._rows():
            ref = self.reference(row_name, split, row)
            if ref.location is None:
                listed.append(hash(ref.path))
            if ref.mask is not None and ref.mask.location is None:
                listed.append(hash(ref.mask.path))
            if ref.location is not None and hash(ref.path) in repeated:
                ref = _rename(ref, _call_by_row(row_name))  # They are several images nevertheless.
            if self._cased and self._cased.get(self._path_of(row_name, split, row)) == ref.path:
                if ref.path in cased_before or self._is_named(ref.path):
                    message = f"names {ref.path!r} again, in different capitals"
                    ref = self._bad_row("listed_twice", row_name, message)
                cased_before.add(ref.path)
            if ref.path in labels and ref.problem in (None, MISSING_FILE):
                ref = self._judge_repeated(ref, row_name, labels[ref.path], first_rows)
            if ref.problem is not None:
                check_bad_row(ref.message, self.options)
            yield ref
        self._say_unlisted(listed)
        for path, cased in itertools.islice(self._cased.items(), 1):
            noticed(
                f"{len(self._cased):,} paths differ from the names of their files by capital "
                f"letters, such as {path!r}, which is read from {cased!r}"
            )

    def _say_unlisted(self, listed: "array.array[int]") -> None:
        """Says how many images lie beside those that rows name, and are named by none."""
        folders = sorted(self._plain_folders)
        if not files.is_local(self.root) or len(folders) > _MOST_FOLDERS:
            return
        known = np.unique(np.frombuffer(listed, np.int64))
        count, example = 0, ""
        for paths in itertools.chain.from_iterable(_images_in(self.root, f) for f in folders):
            hashes = np.fromiter(map(hash, paths), np.int64, len(paths))
            at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            missing = np.flatnonzero(known[at] != hashes) if len(known) else range(len(paths))
            count += len(missing)
            names = (paths[number] for number in missing)
            example = min(itertools.chain([example] if example else [], names), default="")
        if count:
            name = self.path.rstrip("/").rpartition("/")[2]
            is_one = "1 image lies" if count == 1 else f"{count:,} images lie"
            noticed(f"{is_one} beside those that {name} names, such as {example}: not ingested")

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """See `Source.read`."""
        if ref.location is not None:
            return read_location(ref, most_bytes)
        return Folder(self.root, self.follow_links).read(ref, most_bytes)

    def _judge_repeated(
        self, ref: ImageRef, row_name: str, labels: str, first_rows: dict[str, str]
    ) -> ImageRef:
        """The first row of a file counts, unless its rows give it several labels: none is right."""
        first = first_rows.setdefault(ref.path, row_name)
        if labels:
            return self._bad_row("listed_twice", row_name, f"{ref.path!r} has the labels {labels}")
        if first != row_name:
            message = f"names {ref.path!r} again, as {first} does"
            if SPLIT in self.path:
                some = self.path.rpartition("/")[2].replace(SPLIT, "{train,test}")
                message += f"; to read some tables alone, name their splits, as in {some!r}"
            return self._bad_row("listed_twice", row_name, message)
        return ref

    def _read_labels(self, hashes: set[int]) -> dict[str, str]:
        """The labels of each path that several rows name, as messages have them; "" if it is one.

        A file may be named by all rows of a table: what is kept and reported of it is not theirs.
        """
        labels: dict[str, set[str]] = collections.defaultdict(set)
        for row_name, split, row in self._rows():
            path = self._path_of(row_name, split, row)
            is_embedded = isinstance(self._cell(row, "image"), EmbeddedImage)
            if path and hash(path) in hashes and not is_embedded:
                labels[path].add(str(self._cell(row, "label")))
        return {path: _name_labels(each) for path, each in labels.items()}

    def _rows(self) -> Iterator[tuple[str, str | None, Row]]:
        """Each row with its place and the split that its table's name names.

        A column of splits, or that there is to be none, counts more than names, unless these are
        asked for by `{SPLIT}`.
        """
        is_named = SPLIT in self.path or "split" not in self.options.columns
        for row_name, split, row in self._read_once.with_names():
            yield row_name, split if is_named else None, row

    @functools.cached_property
    def _hashes(self) -> np.ndarray:
        """Of the path that each row names, sorted: int64 [rows]."""
        hashes = array.array("q")
        for row_name, split, row in self._rows():
            hashes.append(hash(self._path_of(row_name, split, row)))
        return np.sort(np.frombuffer(hashes, np.int64))

    def _find_repeated(self) -> set[int]:
        """Hashes of the paths that several rows name (and of a few others)."""
        ordered = self._hashes
        return set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())

    def _is_named(self, path: str) -> bool:
        """Whether a row names a file by its very name."""
        at = np.searchsorted(self._hashes, hash(path))
        return bool(at < len(self._hashes) and self._hashes[at] == hash(path))

    def _cell(self, row: Row, name: str) -> Any:
        """What a row has in the column of a name; None where it has none."""
        column = self.options.columns.get(name)
        cell = None if column is None else row.cells.get(column)
        return cell.of_type(self._types.get(name)) if isinstance(cell, Items) else cell

    def _path_of(self, row_name: str, split: str | None, row: Row) -> str:
        """What an image is called: its path; of one that the row holds, as the row says.

        Or else by the row, such as `train.h5/00000017`.
        """
        image = self._cell(row, "image")
        if not isinstance(image, EmbeddedImage):
            return self._clean_path(image, split)
        called = self._cell(row, "path")
        name = posixpath.normpath("" if isinstance(called, _NO_PATH) else _text(called)).lstrip("/")
        return _call_by_row(row_name) if name in ("", ".") else name

    def _clean_path(self, cell: object, split: str | None) -> str:
        """One name for one file: without `./`, and relative if it lies in the root."""
        path = "" if isinstance(cell, _NO_PATH) else str(cell or "").strip()
        if path and self._of_split and files.is_local(path) and path[:1] != "/":
            path = f"{self._of_split.replace(SPLIT, split or '')}/{path}"
        if not files.is_local(path) or path[:1] == "/":
            path = path.removeprefix(self._prefix)
        if not path or not files.is_local(path) or ".." in path.split("/"):
            return path  # Behind a link, `..` leads elsewhere.
        path = posixpath.normpath(path)
        is_plain_text = path.isascii() and "\\" not in path
        return path if is_plain_text else self._find_spelling(path)

    def _find_spelling(self, path: str) -> str:
        """The path as its file is called, if that is written otherwise.

        Tables of Windows have backslashes and bytes of its own encoding; those of macOS may have
        letters and their accents apart.
        """
        if not files.is_local(self.root):
            return path
        slashed = path.replace("\\", "/")
        spellings = [path, slashed, read_windows(slashed)]
        spellings += [unicodedata.normalize(form, spellings[-1]) for form in ("NFC", "NFD")]
        there = (each for each in spellings if os.path.lexists(locate(self.root, each)))
        return next(there, path)

    def reference(self, row_name: str, split: str | None, row: Row) -> ImageRef:
        """The image that a row names or embeds, or why it has none.

        Args:
          row_name: file and line, such as `train.csv:17`.
          split: the one that its table is of; None if there is none.
          row: the row.
        """
        columns = self.options.columns
        if row.problem:
            return self._bad_row("bad_row", row_name, row.problem)
        if misfit := self._find_misfit(row):
            return self._bad_row("wrong_type", row_name, misfit)
        path = self._path_of(row_name, split, row)
        if not path:
            return self._bad_row("no_path", row_name, f"the column {columns['image']!r} is empty")
        try:
            roles = {role: _text(self._cell(row, role)) for role in self._roles_as_text}
            if split is not None:
                roles["split"] = split
            further = tuple(self._convert(name, row) for name in self._further)
        except ValueError as error:
            return self._bad_row("wrong_type", row_name, str(error))
        stated = Annotations(row_name, further=further, **roles)
        ref = self._refer(self._cell(row, "image"), path, stated)
        mask = self._cell(row, "mask")
        called = path if isinstance(mask, EmbeddedImage) else self._clean_path(mask, split)
        return dataclasses.replace(ref, mask=self._refer(mask, called, stated)) if called else ref

    def _find_misfit(self, row: Row) -> str:
        """Which cell of a path can be none, and why; empty if all can."""
        for role in self._roles_as_paths:
            cell = self._cell(row, role)
            if isinstance(cell, Unusable):
                return f"the column {self.options.columns[role]!r}: {cell.why}"
            if isinstance(cell, _NO_PATH) or (
                isinstance(cell, str) and len(cell) > _MOST_CHARACTERS
            ):
                return (
                    f"the column {self.options.columns[role]!r} must have a path, got {show(cell)}"
                )
        return ""

    def _convert(self, name: str, row: Row) -> Value:
        column, type_, cell = self.options.columns[name], self._types[name], self._cell(row, name)
        try:
            if name == "label":
                return convert_label(cell, type_, self.options.tag_separator)
            return convert(cell, type_)
        except ValueError as error:
            raise ValueError(f"the column {column!r} must be of type {type_}: {error}") from error

    def _refer(self, cell: object, path: str, stated: Annotations) -> ImageRef:
        """To an image or a mask that the row names or holds."""
        if isinstance(cell, EmbeddedImage):
            return ImageRef(
                path, cell.size_bytes, cell.modified_ns, annotations=stated, location=cell.location
            )
        return self._look_up(path, stated)

    def _look_up(self, path: str, stated: Annotations) -> ImageRef:
        """A local file's size and time; a store is not asked for each."""
        located = locate(self.root, path)
        is_local = files.is_local(located)
        try:
            status = os.lstat(located) if is_local else None
        except (OSError, ValueError):
            status = None
        is_link = status is None or stat.S_ISLNK(status.st_mode)
        if is_link or not self._is_in_plain_folder(path):
            if not self.follow_links and "\0" not in path and leads_out(self.root, path):
                root = files.make_absolute(self.root)
                # A relative path would start from another root, too.
                is_whole = not is_local or path[:1] == "/"
                further = "ingest.root_dir to the folder of all images, or " * is_whole
                message = (
                    f"{stated.row}: {show(path)} leads out of {root!r}; if it may, set {further}"
                    "ingest.follow_links=true"
                )
                return ImageRef(path, 0, 0, OUTSIDE, message, stated)
            if not is_local:
                return ImageRef(path, 0, 0, annotations=stated)
        try:
            status = os.stat(located) if status is None or is_link else status
        except (OSError, ValueError):
            is_below = path[:1] != "/" and "\0" not in path and ".." not in path.split("/")
            cased = find_cased(self.root, path) if is_below else None
            if cased not in (None, path):
                self._cased[path] = cased
                return self._look_up(cased, stated)
            message = f"{stated.row}: there is no file {show(path)}"
            return ImageRef(path, 0, 0, MISSING_FILE, message, stated)
        if not stat.S_ISREG(status.st_mode):
            message = f"{stated.row}: {path!r} is a folder, or no regular file"
            return ImageRef(path, 0, 0, NOT_A_FILE, message, stated)
        return ImageRef(path, status.st_size, status.st_mtime_ns, annotations=stated)

    def _is_in_plain_folder(self, path: str) -> bool:
        folder = path.rpartition("/")[0]
        if (known := self._plain_folders.get(folder)) is None:
            is_below = not folder and path[:1] != "/"
            known = self._plain_folders[folder] = is_below or is_plain(folder, self.root)
        return known

    def _bad_row(self, problem: str, row_name: str, message: str) -> ImageRef:
        return ImageRef(row_name, 0, 0, problem, f"{row_name}: {message}", Annotations(row_name))


def _images_in(root: str, folder: str) -> Iterator[list[str]]:
    """The paths of the files in a folder below the root that end as images do, some at a time."""
    start = f"{folder}/" if folder else ""
    try:
        with os.scandir(os.path.join(root, folder)) as entries:
            named = (each.name for each in entries if each.name[0] != ".")
            paths = (start + name for name in named if ending_of(name) in IMAGE_ENDINGS)
            while some := list(itertools.islice(paths, _PATHS_AT_ONCE)):
                yield some
    except OSError:
        return


def _call_by_row(row_name: str) -> str:
    """What an image is called that its table holds, and calls nothing."""
    file, _, line = row_name.rpartition(":")
    return f"{file}/{int(line):08d}"


def _name_labels(labels: set[str]) -> str:
    """Several labels, or the first of many; "" for one."""
    if len(labels) < 2:
        return ""
    named = ", ".join(map(show, heapq.nsmallest(_MOST_LABELS, labels)))
    further = len(labels) - _MOST_LABELS
    return f"{named} and {further:,} more" if further > 0 else named


def _rename(ref: ImageRef, path: str) -> ImageRef:
    is_embedded = ref.mask is not None and ref.mask.location is not None
    mask = dataclasses.replace(ref.mask, path=path) if ref.mask and is_embedded else ref.mask
    return dataclasses.replace(ref, path=path, mask=mask)


def check_bad_row(message: str, options: TableOptions) -> None:
    """Raises UserError if rows that cannot be used are not to be quarantined."""
    if options.bad_rows == "error":
        raise UserError(
            f"{message}, and ingest.bad_rows=error; correct the row, or set "
            "ingest.bad_rows=quarantine."
        )


def _text(cell: object) -> str:
    """A label, group or split as text; a whole number as its digits, whatever type it has.

    Raises:
      ValueError: if it is a list or an object.
    """
    if isinstance(cell, _NO_PATH):
        raise ValueError(f"a label, group or split must be one value, got {show(cell)}")
    if isinstance(cell, float) and math.isnan(cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return "" if cell is None else decode_name(read_windows(str(cell).strip()))
