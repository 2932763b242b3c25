"""Which column of a table names the images, and where these are."""

import itertools
import os
import re
from collections.abc import Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.column_values import first_rows, plain_name, words_of
from image_pipeline.components.meaning.counted_folders import sample_hash
from image_pipeline.components.meaning.meanings import list_folders
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.file_names import (
    SPLIT,
    SPLIT_NAMES,
    ending_of,
    split_in_path,
)
from image_pipeline.components.sources.folder import find_cased, locate
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.rows import Row
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.sources.understood import understood
from image_pipeline.components.tables.column_names import usual_columns
from image_pipeline.components.tables.joined_rows import list_in_folders
from image_pipeline.components.tables.rows_once import TableRows

MOST_FOLDERS = 100  # of a table's folder, in which they may be
_LEAST_LETTERS = 4  # of an identifier; a shorter one may be any number
_ENOUGH = 0.9  # of the rows that are looked at
_MOST_SPREAD = 1000  # rows from all over a table
_IDENTIFIERS = (
    *("filepaths", "filenames", "fname", "paths", "files", "images", "relativepath", "fullpath"),
    *("picture", "photo", "imagefilename", "imageid", "idcode", "imgid", "id", "name", "uid"),
    *("uuid", "key"),
)
_DRIVE = re.compile(r"[A-Za-z]:/")
_IMAGE_WORDS = {"images", "image", "imgs", "img", "photos", "pictures", "jpegimages", "data"}


def find_images(path: str, options: IngestOptions, rows: TableRows, first: Row) -> IngestOptions:
    """The column of images, the folder that they are in, and the ending that their names lack."""
    usual = usual_columns(list(first.cells), options.columns)
    image = usual.get("image") or _find_identifier(rows, first) or _find_naming(path, rows, first)
    if image is None or options.path_ending or options.path_prefix or not files.is_local(path):
        return options
    named = _list_named(rows, image)
    if not named or SPLIT in (options.root_dir or ""):
        return options
    near = _folders_near(path)
    if SPLIT in path:
        first_split = named[0][1]
        near = [each.replace(first_split, SPLIT) for each in near if first_split in each] + near
    elif len(rows.tables) > 1 and all(split for _, split in rows.tables):
        near = [*near, SPLIT]  # One a split, in folders of the splits: beside its images.
    roots = [options.root_dir] if options.root_dir is not None else ["", *near]
    if options.path_folders:
        roots = [os.path.join(options.root_dir or "", each) for each in options.path_folders]
    table, folder = os.path.basename(path), kind_of(path).folder(path)
    elsewhere = None
    if kind_of(path).in_folder is None:  # Else paths were made here, when annotations were read.
        elsewhere = _find_prefix(path, folder, roots, [name for name, _ in named])
    if elsewhere is not None:
        prefix, root = elsewhere
        where = os.path.normpath(os.path.join(folder, root))
        understood(
            f"{table}: {image!r} has paths of another machine, of which those below {prefix} are "
            f"looked for in {where} (ingest.path_prefix)"
        )
        update: dict[str, Any] = {"path_prefix": prefix, **({"root_dir": root} if root else {})}
        # Paths of masks begin as those of images do.
        masks = {"mask": usual["mask"]} if "mask" in usual else {}
        update["columns"] = {**masks, **options.columns, "image": image}
        return options.model_copy(update=update)
    folders, found = list(options.path_folders), None
    if folders:
        several = _find_folders(path, image, roots, _spread(rows, image), are_given=True)
        found = several and (options.root_dir or "", several[1])
    else:
        found = _find_files(folder, roots, named)
        found = found or _find_files(folder, roots, named, any_case=True)
    if not folders and (found is None or (found[0] and SPLIT not in found[0])):
        spread = _spread(rows, image)  # The first rows may be in one of several.
        is_most = found is not None and _count(folder, *found, spread) >= _ENOUGH * len(spread)
        if is_most and len({split for _, split in spread}) > 1:  # but perhaps of another split's
            roots, is_most = list(filter(split_in_path, roots)), False
        several = None if is_most else _find_folders(path, image, roots, spread)
        if several is not None:
            found, folders = several[:2], several[2]
    if found is None:
        return options
    root, ending = found
    update = {"path_folders": tuple(folders)} if folders else {}
    if usual.get("image") is None:
        update["columns"] = {**options.columns, "image": image}
    if ending:
        update["path_ending"] = ending
    if root != (options.root_dir or ""):
        update["root_dir"] = root
    if update:
        where = f" in {os.path.normpath(root)}/" if root else ""
        where = f" in {list_folders(folders)} (ingest.path_folders)" if folders else where
        what = f"{image!r} names images{where}"
        understood(f"{table}: {what}{f', without their ending {ending}' if ending else ''}")
    return options.model_copy(update=update)


def _find_identifier(rows: TableRows, first: Row) -> str | None:
    """The column with a usual name for images, or the only one of images' names."""
    by_name = {plain_name(name): name for name in first.cells}
    if named := next((by_name[name] for name in _IDENTIFIERS if name in by_name), None):
        return named
    seen = [row.cells for _, row in first_rows(rows)]
    of_images = [
        name
        for name in first.cells
        if sum(_is_image_name(cells.get(name)) for cells in seen) >= _ENOUGH * len(seen)
    ]
    return of_images[0] if len(of_images) == 1 else None


def _find_naming(path: str, rows: TableRows, first: Row) -> str | None:
    """The first column, whatever its name, whose identifiers are names of files nearby."""
    if not files.is_local(path):
        return None
    folder, roots = kind_of(path).folder(path), ["", *_folders_near(path)]
    for column in first.cells:
        named = _list_named(rows, column)
        identifiers = {name for name, _ in named if len(name) >= _LEAST_LETTERS}
        if 2 * len(identifiers) > len(named) and _find_files(folder, roots, named):
            return column
    return None


def _list_named(rows: TableRows, column: str) -> list[tuple[str, str]]:
    """What the first rows have in a column, with slashes, each with its table's split."""
    named = (
        (str(row.cells.get(column) or "").strip().replace("\\", "/"), rows.tables[number][1] or "")
        for number, row in first_rows(rows)
    )
    return [each for each in named if each[0]]


def _is_image_name(cell: Any) -> bool:
    return isinstance(cell, str) and ending_of(cell.strip()) in IMAGE_ENDINGS


def _folders_near(path: str) -> list[str]:
    """The folders in a table's own, and those beside it with a name of images or the table's."""
    folder = kind_of(path).folder(path)
    below = _subfolders(folder)
    deeper = [f"{name}/{inner}" for name in below for inner in _subfolders(f"{folder}/{name}")]
    called = os.path.basename(os.path.abspath(folder))
    own = {*_IMAGE_WORDS, *SPLIT_NAMES, *words_of(os.path.basename(path))}
    own |= words_of(called)  # wikiart/ beside wikiart_csv/
    others = (name for name in _subfolders(f"{folder}/..") if name != called)
    beside = [name for name in others if own.issuperset(words_of(name))]
    above = [f"../{name}" for name in beside]
    higher = [f"{name}/{inner}" for name in above for inner in _subfolders(f"{folder}/{name}")]
    highest = [f"{name}/{inner}" for name in higher for inner in _subfolders(f"{folder}/{name}")]
    return [*below, *deeper, "..", *above, *higher, *highest[:MOST_FOLDERS]]


def _subfolders(folder: str) -> list[str]:
    try:
        with os.scandir(folder or ".") as entries:
            found = [each.name for each in entries if each.is_dir() and each.name[0] != "."]
    except OSError:
        return []
    return sorted(found)[:MOST_FOLDERS]


def _find_files(
    folder: str, roots: Sequence[str], named: Sequence[tuple[str, str]], any_case: bool = False
) -> tuple[str, str] | None:
    """The folder and the ending with which most names are files; None if there is none.

    Args:
      folder: of the table.
      roots: folders that are tried, seen from it; `{SPLIT}` stands for a split's name.
      named: paths, each with its table's split.
      any_case: whether capital letters of files may differ.
    """

    def place_of(root: str, split: str) -> str:
        return os.path.join(folder, root.replace(SPLIT, split)) if root else folder

    def locate_in(root: str, name: str, split: str) -> str:
        return locate(place_of(root, split), name)

    for root in roots:
        there = sum(os.path.exists(locate_in(root, *each)) for each in named)
        if any_case:
            there = sum(_is_file(place_of(root, split), name, True) for name, split in named)
        if there >= (_ENOUGH if root else 0.5) * len(named) or (there and root == ""):
            return root, ""
        name, split = named[0]
        if "." in os.path.basename(name)[-5:]:
            continue
        for ending in _endings_in(locate_in(root, name, split)):
            there = sum(os.path.exists(f"{locate_in(root, *each)}{ending}") for each in named)
            if there >= _ENOUGH * len(named):
                return root, ending
    return None


def _spread(rows: TableRows, column: str) -> list[tuple[str, str]]:
    """As `_list_named` gives them, of rows from all over the tables."""
    one_in, found = 1, list[tuple[str, str]]()
    for number, row in rows:
        name = str(row.cells.get(column) or "").strip().replace("\\", "/")
        if name and not row.problem and sample_hash(name) % one_in == 0:
            found.append((name, rows.tables[number][1] or ""))
        if len(found) > _MOST_SPREAD:
            one_in *= 2
            found = [each for each in found if sample_hash(each[0]) % one_in == 0]
    return found


def _count(folder: str, root: str, ending: str, named: Sequence[tuple[str, str]]) -> int:
    """How many of these names are files."""
    places = {split: os.path.join(folder, root.replace(SPLIT, split)) for _, split in named}
    return sum(_is_file(places[split], name + ending, any_case=True) for name, split in named)


def _find_folders(
    path: str,
    image: str,
    roots: Sequence[str],
    named: Sequence[tuple[str, str]],
    are_given: bool = False,
) -> tuple[str, str, list[str]] | None:
    """The folders that together have the images, as those of HAM10000 are; None if none have them.

    Returns:
      The folder that they are seen from, itself seen from the table's; the ending that names lack;
      and the folders.

    Raises:
      UserError: if an image may be one of several files.
    """
    folder = kind_of(path).folder(path)
    below = [root for root in roots if root and root != ".." and SPLIT not in root]
    start = ".." if all(root.startswith("../") for root in below) else ""
    first = (locate(os.path.join(folder, root), named[0][0]) for root in below)
    for ending in {"": 0, **{each: 0 for place in first for each in _endings_in(place)}}:
        holding = [
            root
            for root in below
            if any(os.path.isfile(os.path.join(folder, root, name + ending)) for name, _ in named)
        ]
        found = [
            list_in_folders(folder, holding, name + ending, split or None) for name, split in named
        ]
        if len(holding) < 2 - are_given or sum(map(bool, found)) < _ENOUGH * len(found):
            continue
        several = next((each for each in found if len(each) > 1), None)
        if several is not None and not are_given:
            raise UserError(
                f"{image!r} of {path!r} names images that are in several folders, such as "
                f"{' and '.join(several[:3])}; say which are meant, as in ingest.path_folders="
                f"[{holding[0]}]."
            )
        if start or not any(root.startswith("../") for root in holding):
            return start, ending, [os.path.relpath(root, start or ".") for root in holding]
    return None


def _find_prefix(
    path: str, folder: str, roots: Sequence[str], named: Sequence[str]
) -> tuple[str, str] | None:
    """What whole paths of another machine begin with, and the folder that the rest starts from.

    Args:
      path: of the table.
      folder: of the table.
      roots: folders that are tried, seen from it; its own alone, if that has them.
      named: the paths, with slashes.

    Returns:
      None if they are none, or lead to no files.

    Raises:
      UserError: if the files may be in several folders.
    """
    if not all(map(_is_whole, named)) or any(map(os.path.exists, named)):
        return None
    parts = [name.split("/") for name in named]
    levels = zip(*(each[:-1] for each in parts), strict=False)
    depth = len(list(itertools.takewhile(lambda level: len(set(level)) == 1, levels)))
    # Windows' letters may be others than the files'.
    for any_case, some in itertools.product((False, True), (roots[:1], roots[1:])):
        found: dict[str, tuple[str, str]] = {}  # by where the first file is then
        for root, cut in itertools.product(some, range(1, depth + 1)):
            place, paths = os.path.join(folder, root), ["/".join(each[cut:]) for each in parts]
            if sum(_is_file(place, each, any_case) for each in paths) >= _ENOUGH * len(paths):
                first = os.path.realpath(os.path.join(place, paths[0]))
                found.setdefault(first, ("/".join(parts[0][:cut]) + "/", root))
        if len(found) > 1:
            ways = "; ".join(
                f"for {place}, ingest.path_prefix={prefix}"
                + (f" and ingest.root_dir={root}" if root else "")
                for place, (prefix, root) in found.items()
            )
            raise UserError(
                f"{path!r} has paths of another machine, such as {named[0]}, and several files may "
                f"be meant: {ways}."
            )
        if found:
            return next(iter(found.values()))
    return None


def _is_file(folder: str, path: str, any_case: bool) -> bool:
    """Whether a path of a folder is a file, or one in different capitals is."""
    return os.path.isfile(os.path.join(folder, path)) or (
        any_case and find_cased(folder, path) is not None
    )


def _is_whole(name: str) -> bool:
    """Whether a path begins at the root of a file system or a drive, or is a URI."""
    return name.startswith("/") or _DRIVE.match(name) is not None or not files.is_local(name)


def _endings_in(path: str) -> list[str]:
    return [each for each in sorted(IMAGE_ENDINGS) if os.path.exists(f"{path}{each}")]
