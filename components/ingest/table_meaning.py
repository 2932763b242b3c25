"""What a table's columns mean, where their names alone do not say it: told from all of its rows.

What is inferred becomes options, so that it is inferred once, and is said; what cannot be known is
refused with the options for each meaning.
"""

import collections
import csv
import dataclasses
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.folder_meaning import FIRST_FOLDER, choose_eval, share_splits
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.labels.boxes import BoxOptions
from image_pipeline.components.labels.masks import MaskOptions
from image_pipeline.components.messages import show
from image_pipeline.components.sources.file_names import SPLIT, SPLIT_NAMES, ending_of
from image_pipeline.components.sources.folder import locate
from image_pipeline.components.sources.options import BoxRowOptions, RunLengthOptions
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.rows import EmbeddedImage, Row
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.sources.understood import noticed, understood
from image_pipeline.components.tables.box_order import read_cells_order, read_order
from image_pipeline.components.tables.column_names import BOXES, usual_columns
from image_pipeline.components.tables.drawn_masks import (
    NO_SEGMENT,
    ascend,
    drawn_classes,
    is_no_run,
    is_runs,
)
from image_pipeline.components.tables.joined_rows import (
    JOINED_BOXES,
    LABEL,
    MASK,
    ONLY_CLASS,
    is_yes,
)
from image_pipeline.components.tables.rows_once import TableRows
from image_pipeline.components.tables.text_rows import TEXTS, find_windows_word

_LOOKED_FOR = 50  # rows whose files are looked for
_MOST_FOLDERS = 100  # of a table's folder, in which they may be
_MOST_VALUES = 1000  # of a column of classes
_ENOUGH = 0.9  # of the rows that are looked at
_MOST_SPLITS = 20
_MOST_READ = 2**20  # bytes of a table, to know its encoding
_IDENTIFIERS = (
    *("filepaths", "filenames", "fname", "paths", "files", "images", "relativepath", "fullpath"),
    *("picture", "photo", "imagefilename", "imageid", "idcode", "imgid", "id", "name", "uid"),
    *("uuid", "key"),
)
_SPLITS = (
    *("split", "subset", "set", "usage", "partition", "phase", "fold", "foldtype", "datasplit"),
    *("dataset", "datatype", "splits", "setname", "splitname", "purpose"),
)
_SPLIT_VALUES = {
    **SPLIT_NAMES,
    **dict.fromkeys(("validate", "vld", "vali", "publictest"), "eval"),
    **{"trn": "train", "privatetest": "test"},
}
# What is likely a split, of which nobody can tell which value is which.
_MAY_BE_SPLITS = (
    *("fold", "kfold", "istrain", "istraining", "istest", "isval", "isvalid", "isvalidation"),
    *("istrainingimage", *_SPLITS),
)
_ID_WORDS = {"id", "uid", "uuid", "index", "idx", "user", "patient", "subject", "hash", "md5"}
_MEASURE_WORDS = {"width", "height", "size", "bytes", "date", "time", "year", "url", "name"}
_IMAGE_WORDS = {"images", "image", "imgs", "img", "photos", "pictures", "jpegimages", "data"}
_WORD = re.compile(r"[A-Za-z][a-z]*|[A-Z]+")


@dataclasses.dataclass
class _Column:
    """What the values of a column are.

    Attributes:
      counts: of its values, as text; of very many, of none.
      is_many: whether there are more than a column of classes has.
      is_number: whether all are whole numbers or text of them.
      is_plain: whether all are text or numbers.
      has_fraction: whether any is a number that is not whole.
    """

    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    is_many: bool = False
    is_plain: bool = True
    has_fraction: bool = False

    def see(self, cell: Any) -> None:
        """Takes a cell into account."""
        if not isinstance(cell, str | int | float):
            self.is_plain = False
            return
        if not self.is_many:
            self.counts[str(cell).strip()] += 1
            self.is_many = len(self.counts) > _MOST_VALUES
        if self.has_fraction:
            return
        try:
            self.has_fraction = float(cell) % 1 != 0
        except (ValueError, OverflowError):
            return

    @property
    def values(self) -> set[str]:
        """All of them; empty cells are none."""
        return set(self.counts) - {""}

    @property
    def may_be_label(self) -> bool:
        """Whether there are several values, of which each is of several rows."""
        values = self.values
        is_few = self.is_plain and not self.is_many and len(values) >= 2
        return is_few and not self.has_fraction and 2 * len(values) <= self.counts.total()

    @property
    def is_yes_or_no(self) -> bool:
        """Whether each value says that a row is of the column's class, or that it is not."""
        values = {value.lower().removesuffix(".0") for value in self.values}
        is_either = values <= {"0", "1", "true", "false"} or values == {"-1", "1"}
        return self.is_plain and not self.is_many and bool(values) and is_either


def understand_rows(path: str, options: IngestOptions, rows: TableRows) -> IngestOptions:
    """The options with what a table's rows mean, as far as neither they nor its names say it.

    Args:
      path: of the table, or a pattern of one a split.
      options: that were given.
      rows: the table's.

    Raises:
      UserError: if a label, or the order of boxes' numbers, may be one of several.
    """
    _say_encoding(path, rows)
    first = next((row for _, row in rows if not row.problem), None)
    if first is None:
        return options
    drawn = _find_drawn(rows)
    if drawn is not None:
        options = _name_drawn_classes(path, options, rows, first, drawn)
    elif any(isinstance(cell, EmbeddedImage) for cell in first.cells.values()):
        return _find_split(path, options, rows, first)
    options = _find_images(path, options, rows, first)
    if usual_columns(list(first.cells), options.columns).get("image") not in first.cells:
        return options  # Its absence is refused by whoever names the columns.
    if options.label_columns:
        options = options.model_copy(update={"columns": {**options.columns, LABEL: LABEL}})
    options = _find_run_lengths(path, options, rows, first)
    options = _find_box_rows(path, options, rows, first)
    return _find_labels(path, options, rows, first)


def _say_encoding(path: str, rows: TableRows) -> None:
    """Says which tables of text are no UTF-8; refuses those that may be of several encodings."""
    for table, _ in rows.tables:
        is_text = kind_of(table) in TEXTS and files.is_local(table) and os.path.isfile(table)
        data = files.read_file(table, 0, _MOST_READ) if is_text else b""
        if word := find_windows_word(table, data):
            understood(
                f"{os.path.basename(table)} is no UTF-8, so it is read as Windows writes it in "
                f"western languages (cp1252), as in {word!r}; if that is wrong, save it as UTF-8"
            )


def _find_images(path: str, options: IngestOptions, rows: TableRows, first: Row) -> IngestOptions:
    """The column of images, the folder that they are in, and the ending that their names lack."""
    usual = usual_columns(list(first.cells), options.columns)
    image = usual.get("image") or _find_identifier(rows, first)
    if image is None or options.path_ending or not files.is_local(path):
        return options
    named = [
        (str(row.cells.get(image) or "").strip().replace("\\", "/"), rows.tables[number][1] or "")
        for number, row in _some(rows)
    ]
    named = [each for each in named if each[0]]
    if not named or SPLIT in (options.root_dir or ""):
        return options
    near = _folders_near(path)
    if SPLIT in path:
        first_split = named[0][1]
        near = [each.replace(first_split, SPLIT) for each in near if first_split in each] + near
    roots = [options.root_dir] if options.root_dir is not None else ["", *near]
    found = _find_files(kind_of(path).folder(path), roots, named)
    if found is None:
        return options
    root, ending = found
    update: dict[str, Any] = {}
    if usual.get("image") is None:
        update["columns"] = {**options.columns, "image": image}
    if ending:
        update["path_ending"] = ending
    if root != (options.root_dir or ""):
        update["root_dir"] = root
    if update:
        table = os.path.basename(path)
        where = f" in {os.path.normpath(root)}/" if root else ""
        what = f"{image!r} names images{where}"
        understood(f"{table}: {what}{f', without their ending {ending}' if ending else ''}")
    return options.model_copy(update=update)


def _find_identifier(rows: TableRows, first: Row) -> str | None:
    """The column that is called as images are elsewhere, or the only one of images' names."""
    by_name = {_plain(name): name for name in first.cells}
    if named := next((by_name[name] for name in _IDENTIFIERS if name in by_name), None):
        return named
    seen = [row.cells for _, row in _some(rows)]
    of_images = [
        name
        for name in first.cells
        if sum(_is_image_name(cells.get(name)) for cells in seen) >= _ENOUGH * len(seen)
    ]
    return of_images[0] if len(of_images) == 1 else None


def _is_image_name(cell: Any) -> bool:
    return isinstance(cell, str) and ending_of(cell.strip()) in IMAGE_ENDINGS


def _some(rows: TableRows) -> Iterator[tuple[int, Row]]:
    """The first rows of each table that can be read."""
    counts: collections.Counter[int] = collections.Counter()
    for number, row in rows:
        if not row.problem and counts[number] < _LOOKED_FOR:
            yield number, row
            counts[number] += 1
            if len(counts) == len(rows.tables) and counts[number] == _LOOKED_FOR:
                return


def _folders_near(path: str) -> list[str]:
    """The folders in a table's own, and those beside it that are called as images' or as it is."""
    folder = kind_of(path).folder(path)
    below = _subfolders(folder)
    deeper = [f"{name}/{inner}" for name in below for inner in _subfolders(f"{folder}/{name}")]
    own = {*_words(os.path.basename(path)), *_IMAGE_WORDS, *SPLIT_NAMES}
    beside = [name for name in _subfolders(f"{folder}/..") if own.issuperset(_words(name))]
    above = [f"../{name}" for name in beside]
    higher = [f"{name}/{inner}" for name in above for inner in _subfolders(f"{folder}/{name}")]
    return [*below, *deeper, "..", *above, *higher]


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


def _subfolders(folder: str) -> list[str]:
    try:
        with os.scandir(folder or ".") as entries:
            found = [each.name for each in entries if each.is_dir() and each.name[0] != "."]
    except OSError:
        return []
    return sorted(found)[:_MOST_FOLDERS]


def _find_files(
    folder: str, roots: Sequence[str], named: Sequence[tuple[str, str]]
) -> tuple[str, str] | None:
    """The folder and the ending with which most names are files; None if there is none.

    Args:
      folder: of the table.
      roots: folders that are tried, seen from it; `{SPLIT}` stands for a split's name.
      named: paths, each with its table's split.
    """

    def locate_in(root: str, name: str, split: str) -> str:
        return locate(os.path.join(folder, root.replace(SPLIT, split)) if root else folder, name)

    for root in roots:
        there = sum(os.path.exists(locate_in(root, *each)) for each in named)
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


def _endings_in(path: str) -> list[str]:
    return [each for each in sorted(IMAGE_ENDINGS) if os.path.exists(f"{path}{each}")]


_CORNERS: tuple[tuple[tuple[str, ...], str | None], ...] = (
    (("xmin", "ymin", "xmax", "ymax"), "xyxy"),
    (("x1", "y1", "x2", "y2"), "xyxy"),
    (("x0", "y0", "x1", "y1"), "xyxy"),
    (("box1", "box2", "box3", "box4"), "xyxy"),  # of a table without names, as keras-retinanet has
    (("left", "top", "right", "bottom"), "xyxy"),
    (("xtl", "ytl", "xbr", "ybr"), "xyxy"),
    (("xcenter", "ycenter", "width", "height"), "center_xywh"),
    (("centerx", "centery", "width", "height"), "center_xywh"),
    (("cx", "cy", "w", "h"), "center_xywh"),
    (("xmin", "ymin", "width", "height"), "xywh"),
    (("left", "top", "width", "height"), "xywh"),
    (("x", "y", "width", "height"), "xywh"),
    (("x", "y", "w", "h"), "xywh"),
)
_PREFIXES = ("", "bbox", "box", "bndbox", "roi")
_ONE_COLUMN = ("bbox", "box", "bndbox", "boundingbox")
_SIZES = (("width", "height"), ("imagewidth", "imageheight"), ("imgwidth", "imgheight"))
_CROWDS = ("isgroupof", "iscrowd", "crowd")
_BOX_CLASSES = (
    *("class", "label", "labelname", "classname", "category", "categoryname", "name", "object"),
    *("objectname", "species", "type", "classid", "categoryid", "labelid", "classes", "labels"),
)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _find_box_rows(path: str, options: IngestOptions, rows: TableRows, first: Row) -> IngestOptions:
    """The columns of boxes, if each row is one, and what their four numbers are."""
    if options.box_rows is not None or "boxes" in options.columns:
        return options
    if any(name.lower() in BOXES for name in first.cells):
        return options
    by_name = {_plain(name): name for name in reversed(list(first.cells))}
    numbers, order = _name_corners(by_name)
    if numbers is None:
        one = next((by_name[name] for name in _ONE_COLUMN if name in by_name), None)
        if one is None or not _is_list_of_four(first.cells[one]):
            return options
        numbers = (one,)
    free = {plain: name for plain, name in by_name.items() if name not in numbers}
    size = next((tuple(free[s] for s in pair) for pair in _SIZES if free.keys() >= set(pair)), None)
    given = options.columns.get(LABEL)
    asked = BoxRowOptions(
        numbers=numbers,
        name=given or next((free[name] for name in _BOX_CLASSES if name in free), None),
        size=size,  # type: ignore[arg-type]
        crowd=next((free[name] for name in _CROWDS if name in free), None),
    )
    table = os.path.basename(path)
    image = (
        options.columns.get("image") or usual_columns(list(first.cells), options.columns)["image"]
    )
    if asked.name is not None and (names := _find_names(path, rows, asked.name)):
        asked = asked.model_copy(update={"names": names[1]})
        understood(f"{table}: {names[0]} says what the classes are called")
    boxes = {} if options.boxes is None else options.boxes.model_dump(exclude_unset=True)
    if "format" not in boxes:
        judged = read_order(path, options, rows, image, asked, order)
        boxes["format"] = judged.format
        understood(f"{table}: each row is a box, {judged.words}")
    named = (
        f"classes are in {asked.name!r}"
        if asked.name
        else "all are of one class, 'object', unless ingest.columns={label: …} names their column"
    )
    understood(f"{table}: the rows of an image are joined; {named}")
    columns = {name: column for name, column in options.columns.items() if name != LABEL}
    columns |= {"boxes": JOINED_BOXES, "image": image}
    update = {"box_rows": asked, "columns": columns, "boxes": BoxOptions.model_validate(boxes)}
    return options.model_copy(update=update)


def understand_cells(
    path: str, given: IngestOptions, options: IngestOptions, rows: TableRows
) -> IngestOptions:
    """The options with the order of boxes' numbers, if it is not said, and not the usual one.

    Args:
      path: of the table.
      given: the options before its columns were named.
      options: the options since.
      rows: the table's, an image each.
    """
    is_said = given.boxes is not None and "format" in given.boxes.model_fields_set
    if options.boxes is None or is_said or options.boxes.format != "xywh":
        return options
    judged = read_cells_order(path, options, rows)
    if judged is None:
        return options
    understood(f"{os.path.basename(path)}: {judged.words}")
    boxes = options.boxes.model_copy(update={"format": judged.format})
    return options.model_copy(update={"boxes": boxes})


_RUN_NAMES = ("encodedpixels", "rle", "runlengths", "runlength", "rlemask", "maskrle")


def _find_run_lengths(
    path: str, options: IngestOptions, rows: TableRows, first: Row
) -> IngestOptions:
    """The columns of masks by run lengths, and their classes."""
    by_name = {_plain(name): name for name in reversed(list(first.cells))}
    pixels = next((by_name[name] for name in _RUN_NAMES if name in by_name), None)
    if options.run_lengths is not None or pixels is None or "mask" in options.columns:
        return options
    cells = [row.cells.get(pixels) for _, row in _some(rows)]
    if not all(map(is_runs, cells)):
        return options
    if wrong := next((str(c) for c in cells if not is_no_run(c) and not ascend(str(c))), None):
        raise UserError(
            f"{os.path.basename(path)}: {pixels!r} has run lengths, but they do not begin one "
            f"after the other, as in {show(wrong)}; if they tell gaps, as SIIM-ACR's do, write "
            "where each begins, counted from 1; ingest.columns={mask: null} leaves them out."
        )
    name = next((by_name[each] for each in ("classid", *_BOX_CLASSES) if each in by_name), None)
    classes: tuple[str, ...] = (ONLY_CLASS,)
    if name is not None:
        values = _look_at(rows, [name])[name].values
        classes = tuple(sorted(values, key=lambda v: (0, int(v), v) if v.isdigit() else (1, 0, v)))
    image = usual_columns(list(first.cells), options.columns)["image"]
    masks = MaskOptions() if options.masks is None else options.masks
    if masks.classes is None:
        masks = masks.model_copy(update={"classes": ("background", *classes)})
    understood(
        f"{os.path.basename(path)}: {pixels!r} has masks by run lengths, counted from 1 and column "
        f"by column; classes: background, {', '.join(classes)}"
    )
    update = {
        "run_lengths": RunLengthOptions(pixels=pixels, name=name, classes=classes),
        "columns": {**options.columns, "image": image, "mask": MASK},
        "masks": masks,
    }
    return options.model_copy(update=update)


def _find_drawn(rows: TableRows) -> str | None:
    """The column of masks that are drawn of segments; not every image has one."""
    cells = (cell for _, row in _some(rows) for cell in row.cells.items())
    return next((name for name, cell in cells if drawn_classes(cell) is not None), None)


def _name_drawn_classes(
    path: str, options: IngestOptions, rows: TableRows, first: Row, column: str
) -> IngestOptions:
    """The columns of images and of masks drawn of segments, and the classes of all tables."""
    if options.columns.get("mask", column) != column:
        return options
    image = usual_columns([name for name in first.cells if name != column], options.columns)
    columns = {**options.columns, "image": image["image"], "mask": column}
    options = options.model_copy(update={"columns": columns})
    masks = MaskOptions() if options.masks is None else options.masks
    if masks.classes is not None:
        return options
    classes: dict[str, tuple[int, ...]] = {}
    for place, row in rows.with_places():
        for name, levels in (drawn_classes(row.cells.get(column)) or {}).items():
            others = {level for other in classes if other != name for level in classes[other]}
            if classes.setdefault(name, levels) != levels or others & {*levels}:
                raise UserError(
                    f"{place}: the category {name!r} has the id {levels[0]}, which is otherwise in "
                    "another file; give all files the same categories, or ingest each by itself."
                )
    understood(
        f"{os.path.basename(path.rstrip('/'))}: masks of categories, drawn of panoptic segments; "
        f"classes: {', '.join(classes)}; pixels of no segment are of none"
    )
    update = {"classes": classes, "ignored": (NO_SEGMENT,)}
    return options.model_copy(update={"masks": masks.model_copy(update=update)})


def _find_names(path: str, rows: TableRows, column: str) -> tuple[str, dict[str, str]] | None:
    """A table of two columns beside this one that names the codes of all classes; and its names."""
    folder = kind_of(path).folder(path)
    codes = {str(row.cells.get(column) or "").strip() for _, row in rows if not row.problem} - {""}
    try:
        beside = sorted(each for each in os.listdir(folder) if each.lower().endswith(".csv"))
    except OSError:
        return None
    for name in beside[:_MOST_FOLDERS]:
        try:
            with open(os.path.join(folder, name), encoding="utf-8-sig", newline="") as file:
                pairs = [
                    row[:2] for row in itertools.islice(csv.reader(file), 10**5) if len(row) == 2
                ]
        except (OSError, UnicodeError, csv.Error):
            continue
        names = {code.strip(): called.strip() for code, called in pairs}
        are_names = not any(called.isdigit() for called in names.values())
        if codes and codes <= names.keys() and are_names:
            return name, {code: names[code] for code in sorted(codes)}
    return None


def _name_corners(by_name: Mapping[str, str]) -> tuple[tuple[str, ...] | None, str | None]:
    for prefix in _PREFIXES:
        for names, order in _CORNERS:
            if all(f"{prefix}{name}" in by_name for name in names):
                return tuple(by_name[f"{prefix}{name}"] for name in names), order
    return None, None


def _is_list_of_four(cell: Any) -> bool:
    if isinstance(cell, str):
        cell = cell.strip().strip("[]()").replace(",", " ").split()
    return isinstance(cell, list | tuple) and len(cell) == 4 and all(map(_is_number, cell))


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _find_labels(path: str, options: IngestOptions, rows: TableRows, first: Row) -> IngestOptions:
    """The column of splits; and that of labels, or those of one class each."""
    options = _find_split(path, options, rows, first)
    usual = usual_columns(list(first.cells), options.columns)
    names_label = {"label", "mask"} & {*options.columns, *usual}
    of_boxes = [name for name in first.cells if name.lower() in (*BOXES, "tags")]
    is_joined = options.box_rows is not None or options.label_columns != ()
    is_said = bool(names_label or of_boxes) or is_joined or options.masks is not None
    if is_said or options.label_pattern != FIRST_FOLDER:
        return options
    columns, split = _look_at(rows, None), options.columns.get("split")
    image = options.columns.get("image") or usual.get("image")
    taken = {image, split, usual.get("group"), *options.columns.values()}
    others = {name: column for name, column in columns.items() if name not in taken}
    return _take_label(path, options, rows, others, columns[image or ""] if image else None)


def _find_split(path: str, options: IngestOptions, rows: TableRows, first: Row) -> IngestOptions:
    """The column of splits, if its values are such."""
    by_name = {_plain(name): name for name in reversed(list(first.cells))}
    split = next((by_name[name] for name in _MAY_BE_SPLITS if name in by_name), None)
    if split is None or "split" in options.columns:
        return options
    return _take_split(path, options, split, _look_at(rows, [split])[split])


def _look_at(rows: TableRows, names: Sequence[str] | None) -> dict[str, _Column]:
    columns: dict[str, _Column] = collections.defaultdict(_Column)
    for _, row in rows:
        for name in row.cells if names is None else names:
            cell = row.cells.get(name)
            if cell is not None:
                columns[name].see(cell)
    return columns


def _take_split(path: str, options: IngestOptions, split: str, column: _Column) -> IngestOptions:
    """The options of a column whose values name splits, or as they are."""
    named = {value: _SPLIT_VALUES.get(value.lower()) for value in column.values}
    known = {value: name for value, name in named.items() if name is not None}
    table = os.path.basename(path)
    if known == {"train": "train"} == named and options.splits == IngestOptions().splits:
        understood(f"{table}: all of {split!r} are 'train', so that images are shared out anew")
        return options.model_copy(update={"columns": {**options.columns, "split": None}})
    is_split = _plain(split) in _SPLITS
    are_all = len(known) == len(named) and "train" in known.values()
    if not (is_split and are_all and len(set(known.values())) > 1):
        if split not in options.columns.values() and 1 < len(named) <= _MOST_SPLITS:
            values = ", ".join(sorted(named))
            noticed(
                f"{table}: {split!r} ({values}) does not say which rows are for "
                f"training; if it does, ingest.columns={{split: {split!r}}}, and "
                'ingest.split_names, as in \'{"1": train, "0": eval}\''
            )
        return options
    if any(value in options.splits for value in known if known[value] != value):
        return options  # They are splits by their own names.
    update: dict[str, Any] = {"columns": {**options.columns, "split": split}}
    if "test" not in options.splits:
        evaluated = choose_eval(known)
        known = evaluated if "eval" not in known.values() else known
    if options.splits == IngestOptions().splits:
        update["splits"] = share_splits(known)
    elif not set(known.values()) <= set(options.splits):
        return options
    renamed = {value: name for value, name in sorted(known.items()) if value != name}
    update["split_names"] = renamed | options.split_names
    if renamed or split.lower() not in ("split", "subset"):
        told = ", ".join(f"{value} ({name})" for value, name in sorted(known.items()))
        understood(f"{table}: {split!r} names the splits: {told}")
    return options.model_copy(update=update)


def _take_label(
    path: str,
    options: IngestOptions,
    rows: TableRows,
    columns: Mapping[str, _Column],
    images: _Column | None,
) -> IngestOptions:
    """The options with the label of a table of which no column is called as labels are."""
    table = os.path.basename(path)
    one_each = [name for name, column in columns.items() if column.is_yes_or_no]
    others = [
        name
        for name, column in columns.items()
        if name not in one_each and column.may_be_label and not _is_other(name)
    ]
    if len(one_each) == 1:  # of which a row is one, or is not
        others += one_each
    folders = _first_folders(images)
    if len(folders) > 1:  # Then classes are in the paths, as for a folder.
        if others or len(one_each) > 1:
            more = ", ".join(map(repr, (others or one_each)[:5]))
            understood(
                f"{table}: no column is called as labels are, so classes are the first folders of "
                f"paths: {', '.join(sorted(folders)[:5])}; ingest.columns={{label: …}} takes a "
                f"column, such as {more}"
            )
        return options
    ways = [*others, *(["the columns of 0 and 1"] if len(one_each) > 1 else [])]
    if len(ways) > 1:
        told = "; ".join(f"for {name!r}, ingest.columns={{label: {name!r}}}" for name in others)
        if len(one_each) > 1:
            named = ", ".join(one_each[:5]) + ", …" * (len(one_each) > 5)
            told += f"; for {named} as a class each, ingest.label_columns=[{named}]"
        raise UserError(
            f"No column of {path!r} is called as labels are, and several may be: {told}; for "
            "images without labels, ingest.label_pattern=null."
        )
    if others:
        understood(f"{table}: the label is the column {others[0]!r}, ingest.columns={{label: …}}")
        return options.model_copy(update={"columns": {**options.columns, LABEL: others[0]}})
    if len(one_each) > 1:
        return _take_columns(table, options, rows, one_each)
    if columns:
        raise UserError(
            f"No column of {path!r} is called as labels are, and none has few values that come "
            f"again: {', '.join(map(repr, columns))}. Name it, as in ingest.columns={{label: "
            f"{next(iter(columns))!r}}}; for images without labels, ingest.label_pattern=null."
        )
    return options


def _is_other(name: str) -> bool:
    """Whether a column is called as those are that identify or measure."""
    words = _words(name)
    return bool(words & (_ID_WORDS | _MEASURE_WORDS)) and not words & {"class", "label"}


def _first_folders(images: _Column | None) -> set[str]:
    if images is None:
        return set()
    paths = [value.replace("\\", "/") for value in images.counts]
    return {path.split("/")[0] for path in paths if "/" in path.strip("/")}


def _take_columns(
    table: str, options: IngestOptions, rows: TableRows, names: Sequence[str]
) -> IngestOptions:
    """The options of a table that has a column a class: one of them a row, or tags."""
    counts = (sum(is_yes(row.cells.get(n)) for n in names) for _, row in rows if not row.problem)
    is_class = all(count == 1 for count in counts)
    update: dict[str, Any] = {
        "label_columns": tuple(names),
        "columns": {**options.columns, LABEL: LABEL},
    }
    if not is_class:
        update["column_types"] = {**options.column_types, LABEL: "strings"}
    shown = ", ".join(names[:5]) + ", …" * (len(names) > 5)
    kind = "class" if is_class else "tag"
    understood(f"{table}: each of {shown} is a {kind} (ingest.label_columns)")
    return options.model_copy(update=update)
