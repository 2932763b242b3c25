"""What a table of images says, or a generator, as a layout for a starter configuration."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from image_pipeline.components.dataset.record import order_names
from image_pipeline.components.errors import UserError
from image_pipeline.components.generators.generator import open_generator
from image_pipeline.components.labels.kinds import BOXES
from image_pipeline.components.meaning.column_values import TAG_COLUMNS, find_separator
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.meanings import choose_eval
from image_pipeline.components.meaning.open_source import no_usable_row, open_complete
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import match_pattern, names_of, path_of
from image_pipeline.components.meaning.pixel_lists import UnstatedShape, propose_shape
from image_pipeline.components.sources.file_names import SPLIT, SPLIT_NAMES
from image_pipeline.components.sources.folder import OUTSIDE
from image_pipeline.components.sources.references import Annotations, ImageRef, Source
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.init.layout import Layout

_ORDER = {"train": 0, "eval": 1, "test": 2}


@dataclasses.dataclass
class _Rows:
    """What the rows of a table say.

    Attributes:
      options: with all columns and types.
      source: what they are read from.
      refs: of the rows that can be used.
      names: their classes, tags or classes of boxes, counted.
      values: of their labels, if these are numbers.
      splits: that they name.
      problems: how many rows cannot be used.
      first: what is wrong with the first of them.
      outside: paths that lead out of the root.
    """

    options: IngestOptions
    source: Source
    refs: list[ImageRef] = dataclasses.field(default_factory=list)
    names: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    values: list[float] = dataclasses.field(default_factory=list)
    splits: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    problems: int = 0
    first: str = ""
    outside: list[str] = dataclasses.field(default_factory=list)

    def leave_out(self, refs: Iterable[ImageRef]) -> Iterator[tuple[ImageRef, Annotations]]:
        """The rows that can be used, with what the table says of each; counts the others."""
        for ref in refs:
            if ref.problem is None and ref.annotations is not None:
                yield ref, ref.annotations
            else:
                self.problems += 1
                self.first = self.first or ref.message
                self.outside += [ref.path] * (ref.problem == OUTSIDE)

    def count(self, ref: ImageRef, annotations: Annotations) -> None:
        """Takes a row into account that can be used."""
        self.refs.append(ref)
        in_path = match_pattern(self.options.split_pattern, "split", path_of(ref))
        self.splits.update(
            filter(None, [in_path if annotations.split is None else annotations.split])
        )
        further: dict[str, Any] = dict(
            zip(order_names(self._types), annotations.further, strict=True)
        )
        if "boxes" in further:
            self.names.update(box.name for box in further["boxes"][1])
        else:
            self.names.update(filter(None, names_of(ref, self.options)))
        if self._types.get("label") == "float":
            self.values.append(further["label"])

    @property
    def _types(self) -> Mapping[str, Any]:
        return self.options.further_types


def read_layout(table: str, given: IngestOptions) -> tuple[Layout, Source, list[ImageRef]]:
    """Reads a table as ingest would; of a generator, the first items.

    Args:
      table: its path or URI, or the pattern of one a split; or the generator.
      given: what is known of its options: `root_dir` and `follow_links`.

    Returns:
      The layout, a source of the rows, and those that can be used.

    Raises:
      UserError: if the table cannot be read.
    """
    try:
        rows = _read_rows(table, given)
    except UnstatedShape:
        rows = _read_rows(table, propose_shape(table, given))
    if not rows.refs:
        are_all = len(rows.outside) == rows.problems
        outside = (min(rows.outside), max(rows.outside)) if are_all else ()
        error = no_usable_row(table, rows.problems, rows.first, outside)
        here = " To init these options are given as --root-dir and --follow-links."
        raise UserError(f"{error}{here if rows.outside else ''}")
    rows = _try_tags(table, rows)
    splits, split_names, columns = _choose_splits(table, rows)
    options = rows.options
    of_boxes = (options.boxes and options.boxes.classes) or ()
    names = {name: rows.names[name] for name in of_boxes or sorted(rows.names)}
    has_label = "label" in options.columns
    layout = Layout(
        _name_kind(table, options),
        len(rows.refs),
        rows.problems,
        label_pattern=None if has_label else options.path_label_pattern,
        classes=names,
        split_pattern=options.split_pattern,
        split_names=split_names,
        splits=splits,
        columns=columns,
        column_types=options.column_types,
        root_dir=options.root_dir,
        further=_list_further(options),
        inferred=options.understood,
        tag_separator=options.tag_separator,
        values=rows.values,
        generator=options.generator,
    )
    return layout, rows.source, rows.refs


def _list_further(options: IngestOptions) -> dict[str, Any]:
    """What was understood of a table's rows, beside its columns."""
    kept = {"label_columns", "box_rows", "run_lengths", "path_ending", "path_prefix"}
    kept |= {"path_folders", "pixel_shape"}
    kept |= {"boxes"} if options.box_rows is not None else set()
    kept |= {"masks"} if options.run_lengths is not None else set()
    return options.model_dump(mode="json", include=kept, exclude_defaults=True)


def _name_kind(table: str, options: IngestOptions) -> str:
    if options.generator is not None:
        return "the first items of a generator"
    name = kind_of(table).name
    return f"{name} for each split" if SPLIT in table else name


def _read_rows(table: str, options: IngestOptions, before: _Rows | None = None) -> _Rows:
    """Reads the rows by options; those that were read before, if the options were others."""
    source: Source
    if kind_of(table).lists_images:
        read = None if before is None else getattr(before.source, "rows", None)
        source, options = open_complete(table, options, read)
    else:
        options = complete_options(table, options)
        source = open_generator(table, options).first_items()
    rows = _Rows(options, source)
    for ref, annotations in rows.leave_out(rows.source.list()):
        rows.count(ref, annotations)
    return rows


def _try_tags(table: str, rows: _Rows) -> _Rows:
    """The rows read with tags as labels, if cells of text hold several names each."""
    options, columns = rows.options, rows.options.columns
    named = next((name for name in columns if name in TAG_COLUMNS), None)
    if "label" not in columns and named and options.column_types[named] == "string":
        given = options.model_copy(update={"columns": {"label": columns[named]}})
        given = given.model_copy(update={"column_types": {}})
        rows = _read_rows(table, given, rows)
    label, are_tags = rows.options.columns.get("label"), "label" in rows.options.further_types
    separator = None if label is None or are_tags else find_separator(rows.names, label)
    if separator is None or rows.options.label_kind is BOXES:
        return rows
    columns = {"label": label}
    update = {"columns": columns, "column_types": {}, "tag_separator": separator}
    return _read_rows(table, rows.options.model_copy(update=update), rows)


def _choose_splits(
    table: str, rows: _Rows
) -> tuple[dict[str, int], dict[str, str], dict[str, str | None]]:
    """The rows of each split, what to call the splits that rows name, and the columns."""
    columns, named = dict(rows.options.columns), rows.splits
    own = _name_splits(named, rows.options.split_names)
    if SPLIT in table and not own:
        own = {name: name for name in sorted(named)}
    if not own and "split" in columns:
        columns |= {"split": None, "table_split": columns["split"]}
    renamed = {name: split for name, split in own.items() if name != split}
    return _count_splits(own, named), renamed, columns


def _count_splits(own: Mapping[str, str], named: Mapping[str, int]) -> dict[str, int]:
    """The rows of each split by the pipeline's names, training's first."""
    splits: collections.Counter[str] = collections.Counter()
    for name, split in own.items():
        splits[split] += named[name]
    return dict(sorted(splits.items(), key=lambda item: _ORDER.get(item[0], len(_ORDER))))


def _name_splits(named: Mapping[str, int], known: Mapping[str, str]) -> dict[str, str]:
    """The pipeline's name for each split that rows name; none if no split is for training."""
    usual = {name: SPLIT_NAMES.get(name.lower(), name) for name in sorted(named)}
    own = {name: known.get(name, usual[name]) for name in usual}
    return choose_eval(own) if "train" in own.values() else {}
