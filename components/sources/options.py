"""Options for tables and generators as sources: what their columns are, and how they are run."""

import re
from typing import Any, Literal

import pydantic

from image_pipeline.components.dataset.record import ColumnType
from image_pipeline.components.labels.boxes import BoxOptions
from image_pipeline.components.options import Options

ROLES = ("image", "path", "label", "group", "split", "mask", "boxes")
"""What a column of a table can be for ingest; all others are kept as they are."""


class GeneratorOptions(Options):
    """How a Python generator is run, if the images are `generator:MODULE:FUNCTION`."""

    shards: pydantic.PositiveInt = 16
    """The function is called as `function(shard, shards)` for each shard from 0 on, each time in a
    process of its own, as many at once as there are cores. The order of the items depends on this
    number, and never on the cores. A cluster's workers take 16 shards at a time."""
    errors: Literal["stop", "quarantine"] = "stop"
    """When a generator raises: stop the run, or quarantine that item as `generator_failed` and go
    on without the rest of its shard, of which nothing is known."""
    timeout_s: pydantic.PositiveFloat = 300
    """The longest wait for an item, in seconds, the import of the module included; then the run
    stops."""
    version: str = ""
    """Anything. The function's module tells when its code has changed; change this when what it
    reads has, or what it imports, so that earlier results are not used again."""


class VideoOptions(Options):
    """Which images videos are."""

    frames_per_second: float = pydantic.Field(default=1.0, gt=0, le=1_000)
    """How many frames of each second become images: those that are shown at the beginning, and
    then every 1 / frames_per_second seconds. All frames of a file are one group, so they share a
    split; `group_pattern` may name larger groups."""


class BoxRowOptions(Options):
    """Which columns have a box, if each row of a table is one; the rows of an image are joined."""

    numbers: tuple[str, ...]
    """Those of a box's four numbers, in the order of `ingest.boxes.format`; or the one that has all
    four, as `[1, 2, 3, 4]`. Where they are empty, the image has no box."""
    name: str | None = None
    """The one of the box's class. None: all boxes are of the class `object`."""
    names: dict[str, str] = pydantic.Field(default_factory=dict)
    """What the classes are called that the column has by their codes."""
    size: tuple[str, str] | None = None
    """Those of the image's width and height in pixels, which are then checked."""
    crowd: str | None = None
    """The one that is 1 where a box is around several objects."""


class RunLengthOptions(Options):
    """Which columns have a mask by run lengths; the rows of an image are joined."""

    pixels: str
    """The one of runs such as `1 3 41 5`: where a run begins, counted from 1 and column by column,
    and how many pixels it has. Where it is empty, there is nothing."""
    name: str | None = None
    """The one of the class; all other pixels are `background`. None: the class is `object`."""
    classes: tuple[str, ...] = ()
    """The values of that column, in the order of the classes' ids from 1 on; none: all, sorted."""


class TableOptions(Options):
    """How a table of images is read: a text list, CSV, TSV, JSON lines or Parquet."""

    columns: dict[str, str | None] = pydantic.Field(default_factory=dict)
    """If the source is a table: its columns by what they are. `image` and `mask` (paths or URIs, or
    the images themselves, of which `path` says what each is called), `label` (or `tags`, a list),
    `boxes`, `group` and `split` are used by ingest; any other name is a further column of each
    record. What is left out is found by name, such as `path` or `class`, and every column that is
    left over is kept under its own name. `{notes: null}` leaves a column out."""
    column_types: dict[str, ColumnType] = pydantic.Field(default_factory=dict)
    """Types of further columns, by the names that they get. What is left out is found by reading
    the table: the narrowest of int, float and string that fits all of its values. An empty cell is
    "" or NaN, so a column of whole numbers with empty cells is a float. The label is `string` (a
    class), `strings` (tags) or `float` (a value to predict), which is what numbers with fractions
    are taken for."""
    tag_separator: str | None = pydantic.Field(default=None, min_length=1)
    """What stands between the tags in a cell of text, such as `;`: then the label is tags. The
    lists of JSON lines and Parquet need none."""
    label_columns: tuple[str, ...] = ()
    """Columns that are a class each, and 1 in the rows of its images: the label is then the class
    that a row has, or, by `ingest.column_types={label: strings}`, all tags that it has."""
    pixel_shape: tuple[pydantic.PositiveInt, ...] | None = None
    """Height, width and channels, such as `[28, 28, 1]`, of images that TFRecords or CSV hold as
    their values alone, row by row, the channels last: lists of numbers; bytes without a shape
    beside them; a cell of numbers with blanks between, called `pixels`; or a column for each pixel.
    Lists of floats are float32, and stored so by `prepare.dtype: float32`; whole numbers and bytes
    are levels from 0 to 255."""
    box_rows: BoxRowOptions | None = None
    """Which columns have a box, if each row of the table is one, and not an image."""
    run_lengths: RunLengthOptions | None = None
    """Which columns have masks by run lengths, if a table has them so."""
    path_ending: str | None = None
    """What is added to each path, such as `.jpg`, where a table names images without it."""
    path_prefix: str | None = None
    """What is taken off the beginning of each path, where a table has those of another machine,
    such as `C:/Users/someone/data/`; with slashes, also where the table has backslashes."""
    path_folders: tuple[str, ...] = ()
    """Folders in which each path is looked for, where a table names images that are in several, as
    `[images_001/images, images_002/images]`; seen from `root_dir`, on this machine. A table of a
    split looks in the folders of its name, if there are any."""
    boxes: BoxOptions | None = None
    """How the column of boxes is read, if there is one. None: as COCO has them, in pixels."""
    root_dir: str | None = None
    """The folder that a table's relative paths start from, itself relative to the table's folder,
    which is the default; or a URI. Rows that lead out of it are quarantined as `outside`, unless
    `follow_links` is set: so for a table of absolute paths, this names the folder of them all.
    Where the table's name has `{SPLIT}`, it may have it, too, as in
    `../{SPLIT}2017`: then each split's paths start from a folder of its own."""
    bad_rows: Literal["quarantine", "error"] = "quarantine"
    """What happens to a row that cannot be used: one without a path, whose file is missing, that
    names a file again, or has too few cells or a value of the wrong type."""

    @pydantic.field_validator("pixel_shape", mode="before")
    @classmethod
    def _check_shape(cls, shape: Any) -> Any:
        is_list = isinstance(shape, list | tuple) and len(shape) in (2, 3)
        if shape is None or (is_list and all(type(side) is int and side > 0 for side in shape)):
            return shape
        raise ValueError(
            "pixel_shape must be [height, width] or [height, width, channels], of whole numbers "
            f"from 1 on such as [28, 28, 1], got {shape!r}."
        )

    @pydantic.field_validator("column_types")
    @classmethod
    def _check_boxes(cls, types: dict[str, ColumnType]) -> dict[str, ColumnType]:
        if wrong := [name for name in types if (name == "boxes") != (types[name] == "boxes")]:
            raise ValueError(
                f"column_types.{wrong[0]} is {types[wrong[0]]}, but the type boxes is that of the "
                "column boxes, and only of it; name the column by ingest.columns={boxes: …}."
            )
        return types

    def without_prefix(self, path: str) -> str:
        """A path of a table without `path_prefix`; one that does not begin so, as it is."""
        slashed = path.replace("\\", "/")
        is_begun = self.path_prefix is not None and slashed.startswith(self.path_prefix)
        return slashed.removeprefix(self.path_prefix or "").lstrip("/") if is_begun else path

    @property
    def further_types(self) -> dict[str, ColumnType]:
        """Types of the columns that records keep beside a class's name."""
        types = self.column_types
        return {name: types[name] for name in types if (name, types[name]) != ("label", "string")}

    @pydantic.field_validator("columns", "column_types")
    @classmethod
    def _check_names(cls, names: dict[str, str]) -> dict[str, str]:
        for name in names:
            if not re.fullmatch(r"[^\W\d]\w*", name):
                raise ValueError(
                    f"a column's name must be letters, digits and _, got {name!r}; "
                    'give it another, as in {patient_age: "Patient Age"}.'
                )
        return names
