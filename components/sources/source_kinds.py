"""Kinds of sources: which one it is that is given as images, its files, and their rows.

Each is a `SourceKind` in the file that reads it. A new one is such a file, and a line in `_KINDS`.
"""

import contextlib
import dataclasses
import functools
import importlib
import itertools
import os
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error
from image_pipeline.components.sources.file_names import (
    SPLIT,
    Files,
    ending_of,
    find_folder,
    find_matching,
    find_split,
    is_folder,
    list_splits,
    split_named,
)
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.sources.rows import Row, TableError

# By room, module and name; the first that recognises what is given is its kind. What is needed for
# reading only, such as h5py, a kind imports when it reads.
_KINDS = (
    "sources.own_source.OWN_SOURCE",
    "generators.own_rows.OWN_ROWS",
    "generators.generator.GENERATOR",
    "record_files.tfrecord_rows.INGESTED",
    "record_files.tfds.TFDS",
    "record_files.columnar_rows.SAVED",
    "tables.text_rows.LIST",
    "tables.text_rows.CSV",
    "tables.text_rows.TSV",
    "tables.json_rows.JSON_LINES",
    "tables.json_rows.COCO",
    "tables.json_rows.JSON",
    "record_files.columnar_rows.PARQUET",
    "record_files.columnar_rows.ARROW",
    "record_files.tfrecord_rows.TFRECORD",
    "archives.web_dataset.WEB_DATASET",
    "arrays.array_tables.ARRAYS",
    "arrays.idx.IDX",
    "tables.image_folder.IMAGE_FOLDER",
    "tables.coco_folder.COCO_FOLDER",
    "tables.createml.CREATEML_FOLDER",
    "tables.yolo.YOLO",
    "tables.voc.VOC",
    "tables.labelme.LABELME",
    "tables.cub.CUB",
    "archives.archive.ARCHIVE",
    "sources.folder.FOLDER",
)
Asked = Mapping[str, str | None]
"""A table's columns by what they are for ingest, as far as this was given."""
Reader = Callable[[ImageRef, int], bytes]
"""Reads so many of an image's first bytes; it has no fewer. Raises as `read_location`."""

_NONE: Asked = types.MappingProxyType({})
_BESIDE = (
    ".md",
    ".json",
    ".txt",
    ".yaml",
    ".py",
    ".pbtxt",
    "",
)  # what may lie beside a folder's tables
_BELOW = "data"
_MOST_BELOW = 3  # folders in each other that have nothing else
_NOTES = (".md", ".pdf", ".html", ".zip", "")  # what may lie beside such a one
_PARTS = ("images", "annotations", "labels", "jpegimages")  # of a data set


def list_whole(images: str) -> Files:
    """A folder whose rows are read as a whole.

    Raises:
      UserError: if it has annotations of several forms, which may disagree.
    """
    folder = _find_only(images)
    names = [kind.name for kind in all_kinds() if kind.in_folder and kind.in_folder(folder)]
    if len(names) > 1:
        raise UserError(
            f"{images!r} may be {' or '.join(names)}: it has the annotations of each, which may "
            "disagree. Move those that you do not mean out of it; or ingest the table or COCO file "
            "that you mean."
        )
    return [(folder, None)]


def _find_only(folder: str) -> str:
    """The folder itself, or the one in it that is all that it has, as a zip file unpacks."""
    folder = folder.rstrip("/") or "/"
    for _ in range(_MOST_BELOW):
        below: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name[0] == "." or entry.name == "__MACOSX":
                        continue
                    if entry.is_dir():
                        below.append(entry.name)
                    elif ending_of(entry.name) not in _NOTES:
                        return folder
                    if len(below) > 1:
                        return folder
        except OSError:
            return folder
        if not below or split_named(below[0]) or below[0].lower() in _PARTS:
            return folder
        folder = f"{folder.rstrip('/')}/{below[0]}"
    return folder


def list_files(images: str) -> Files:
    """The files of a pattern, or of a folder of tables; what is neither is a file."""
    found = _list_folder(images) if is_folder(images) else find_matching(images)
    return [(path, find_split(path)) for path in found]


def _open_table(images: str, options: Any) -> Source:
    return _load("tables.table.Table")(images, options, options.follow_links)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceKind:
    """How sources of a kind are recognised, opened, read. Most are files of rows, a row an image.

    Attributes:
      name: what it is called in messages.
      prefix: what is given may begin so, such as "tfds:".
      endings: or may end so, see `ending_of`.
      recognise: whether what ends so is of this kind; of a kind without endings, whether anything
        is. None: all that ends so is.
      in_folder: whether a folder, seen by some of its files, is of this kind, whose rows are then
        read from it as a whole. Never raises.
      fills_folders: whether a folder of such files, and no others, is of this kind, too.
      files: the files that are given, with the splits that their names name.
      folder: the one that relative paths in them start from.
      rows: reads a file's rows, given its path and the columns that are asked for; None if images
        are not rows of files. Raises TableError, OSError, UnicodeError or pa.ArrowException if it
        cannot be read on, or UserError.
      reads_asked: whether the rows depend on which columns are asked for.
      takes_shape: whether `rows` takes the shape of images that are values alone, too.
      open: makes the source of what is given, by ingest's options; reads nothing yet.
      locations: how its images are read that have no file of their own, by `Location.kind`.
      has_parts: whether images may be parts of a file, and so be left in place.
      lists_images: whether `list` gives images, which can be read again. Of a generator it gives
        shards: how many images these hold, and what they are, is known when they have run.
      is_dated: whether references have sizes and times, so that an image that was replaced is
        noticed whatever the root is called.
    """

    name: str
    prefix: str = ""
    endings: tuple[str, ...] = ()
    recognise: Callable[[str], bool] | None = None
    in_folder: Callable[[str], bool] | None = None
    fills_folders: bool = False
    files: Callable[[str], Files] = list_files
    folder: Callable[[str], str] = find_folder
    rows: Callable[..., Iterator[Row]] | None = None
    reads_asked: bool = False
    takes_shape: bool = False
    open: Callable[[str, Any], Source] = _open_table
    locations: Mapping[str, Reader] = dataclasses.field(default_factory=dict)
    has_parts: bool = True
    lists_images: bool = True
    is_dated: bool = False

    @property
    def is_table(self) -> bool:
        """Whether images are rows of files."""
        return self.rows is not None

    @property
    def has_rows(self) -> bool:
        """Whether images are rows with columns, which say what they are; or else their paths do."""
        return self.is_table or not self.lists_images

    def matches(self, path: str) -> bool:
        """Whether a path is named as those of this kind are."""
        is_named = self.prefix != "" and path.startswith(self.prefix)
        return is_named or ending_of(path) in self.endings

    def is_given(self, images: str) -> bool:
        """Whether what is given as images is of this kind."""
        if self.prefix and images.startswith(self.prefix):
            return True
        if self.in_folder is not None:
            return is_folder(images) and self.in_folder(_find_only(images))
        if self.endings and is_folder(images):
            first = _list_folder(images)[:1] if self.fills_folders else []
            return any(self.matches(each) and self._recognises(each) for each in first)
        if self.endings and not self.matches(images):
            return False
        return self._recognises(images)

    def _recognises(self, images: str) -> bool:
        return self.endings != () if self.recognise is None else self.recognise(images)


@functools.cache
def all_kinds() -> tuple[SourceKind, ...]:
    """Each kind, in the order in which they are asked."""
    return tuple(map(_load, _KINDS))


def _load(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(f"image_pipeline.components.{module}"), attribute)


def kind_of(images: str) -> SourceKind:
    """The kind of what is given as images; a folder, if it is nothing else."""
    return next(kind for kind in all_kinds() if kind.is_given(images))


def name_endings(is_table: bool) -> str:
    """The endings of tables' names, or of archives', for messages."""
    kinds = (kind for kind in all_kinds() if kind.is_table == is_table)
    return ", ".join(dict.fromkeys(ending for kind in kinds for ending in kind.endings))


def read_head(images: str, most_bytes: int = 2**12) -> bytes:
    """How the first file begins that is given; nothing if there is none, which its reader says."""
    try:
        found = list_splits(images) if SPLIT in images else list_files(images)
        return files.read_file(found[0][0], 0, most_bytes) if found else b""
    except (UserError, OSError):
        return b""


def _list_folder(folder: str) -> list[str]:
    """The tables of a folder, or of its `data`, that has these only, and what tells of them."""
    of_tables = [kind for kind in all_kinds() if kind.fills_folders]
    for each in (folder, f"{folder.rstrip('/')}/{_BELOW}"):
        found: list[str] = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(each):
                if entry.name.startswith("."):
                    continue
                is_table = any(kind.matches(entry.name) for kind in of_tables)
                if entry.is_dir() or not (is_table or ending_of(entry.name) in _BESIDE):
                    break
                found += [entry.path] * is_table
            else:
                if found:
                    return sorted(found)
    return []


def list_tables(images: str) -> Files:
    """The tables with the split that each one's name names, if several splits are named.

    Raises:
      UserError: if there is none.
    """
    if SPLIT in images:
        return list_splits(images)
    kind = kind_of(images)
    try:
        found = kind.files(images.rstrip("/"))
    except (OSError, LookupError, TypeError, ValueError) as error:  # Of a list that is damaged.
        why = f"{images!r} is {kind.name}, but what lists its files cannot be read"
        raise UserError(f"{why} ({describe_error(error)}); make it again.") from error
    if not found:
        raise UserError(f"There is no table {images!r}; give one that exists.")
    is_stated = len({split for _, split in found if split is not None}) > 1
    return found if is_stated else [(path, None) for path, _ in found]


def read_rows(
    path: str, columns: Asked = _NONE, pixel_shape: tuple[int, ...] = ()
) -> Iterator[Row]:
    """Reads a table.

    Args:
      path: of the file, or its URI, as `list_tables` gives it.
      columns: those that are asked for; a file of arrays may have several tables.
      pixel_shape: that of images that are values alone, if that is stated.

    Yields:
      The rows in their order; blank lines are none.

    Raises:
      UserError: if there is no such file, or it cannot be read on; it names the line.
    """
    # By the table's name; or it is a folder of annotations.
    named = [kind for kind in all_kinds() if kind.is_table and kind.matches(path)]
    given = (each for each in named[:-1] if each.is_given(path))
    kind = next(given, named[-1]) if named else kind_of(path)
    path = path.removeprefix(kind.prefix)
    is_there = files.is_local(path) and os.path.exists(path) and kind.in_folder is None
    if is_there and (is_folder(path) or not (os.path.isfile(path) or os.path.isdir(path))):
        raise UserError(f"The table {path!r} is not a regular file; give one that is.")
    try:
        assert kind.rows is not None
        yield from kind.rows(path, columns, *[pixel_shape] * kind.takes_shape)
    except TableError as error:
        raise UserError(f"{path}:{error.line}: {error.problem}") from error
    except FileNotFoundError as error:
        raise UserError(f"The table {path!r} does not exist; give one that exists.") from error
    except (pa.ArrowException, OSError, UnicodeError) as error:
        why = " ".join(str(error).split())  # Arrow says it in several lines.
        raise UserError(f"The table {path!r} cannot be read: {why}") from error


@functools.cache
def _readers() -> Mapping[str, Reader]:
    """How locations of each kind are read."""
    return {name: read for kind in all_kinds() for name, read in kind.locations.items()}


def read_location(ref: ImageRef, most_bytes: int) -> bytes:
    """The first bytes of an image that has a place; at most so many, or all if there are fewer.

    Raises:
      BadImage: if they are damaged.
      OSError: if the file that holds them cannot be read.
      UserError: if its store refuses it or does not answer.
    """
    assert ref.location is not None
    return _readers()[ref.location.kind](ref, min(ref.size_bytes, most_bytes))


def check_unchanged(refs: Sequence[ImageRef]) -> None:
    """Makes sure that what holds images was not changed between its listing and now.

    Called when the images were read: a change before that would go unseen, and another image's
    bytes would pass for one's own. A file that is gone is left to whoever reads it.

    Raises:
      UserError: if one was.
    """
    held: set[tuple[str, int]] = set()
    for ref in itertools.chain(refs, filter(None, (ref.mask for ref in refs))):
        location = ref.location
        if location is not None and ref.modified_ns:
            if location.within is not None:
                held.add((location.within.file, ref.modified_ns))
            elif location.kind in _readers():
                held.add((location.file, ref.modified_ns))
    for path, modified_ns in held:
        with contextlib.suppress(FileNotFoundError):
            # A folder's time is that of the last of its files, and says nothing of it as a whole.
            is_one = files.is_local(path) and os.path.isdir(path)
            if not is_one and files.stat_file(path)[1] != modified_ns:
                raise UserError(
                    f"{path!r} was changed after its images were listed, so they may be elsewhere "
                    "in it now; run again once nothing writes to it."
                )
