"""Options for ingest: where labels come from, what is stored, and how it is split and sharded."""

import functools
import re
from collections.abc import Iterable
from typing import Any, Literal

import pydantic

from image_pipeline.components.dataset import record
from image_pipeline.components.images.prepare import PrepareOptions
from image_pipeline.components.labels.class_names import ClassNameOptions
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import BOXES, MASKS, find_kind
from image_pipeline.components.labels.masks import MaskOptions
from image_pipeline.components.options import Options, PathList
from image_pipeline.components.rules import Rule
from image_pipeline.components.sources.options import (
    GeneratorOptions,
    TableOptions,
    VideoOptions,
)
from image_pipeline.components.sources.pairs import names_in

# What data sets of before these options do not have, and others only if they are set.
_SINCE = (
    *TableOptions.model_fields,
    *("classes", "class_ids", "masks", "generator", "video", "in_place", "leave_out"),
    *("labels", "understood"),
)
# What was done before there were these options, which older manifests do not have.
_BEFORE = {"follow_links": True, "conflicting_labels": "keep"}


_AS_THEY_ARE = (("none", "raw"), ("none", "original"))


def _refuse_pattern(group: str, options: Any) -> str | None:
    """Why a pattern of paths is none, or does not name what it is for."""
    if (pattern := getattr(options, f"{group}_pattern")) is None:
        return None
    problem = f"contain (?P<{group}>…), got {pattern!r}"
    try:
        if group in re.compile(pattern).groupindex:
            return None
    except (re.error, RecursionError, OverflowError) as error:
        problem = f"be a Python regular expression, got {pattern!r}: {error}"
    return f"{group}_pattern must {problem}; for class folders write (?P<{group}>[^/]+)/.+"


def _has_templates(options: Any) -> bool:
    return options.masks is not None and options.masks.images is not None


class IngestOptions(TableOptions):
    """How raw images become shuffled, sharded TFRecords."""

    prepare: PrepareOptions = PrepareOptions()
    in_place: bool = False
    """Records hold no images, only where they are: in the file of arrays or the archive, which is
    read instead from then on and must stay as it is. Order, splits and lists are the same. For
    images that would be stored as they are: `prepare.resize` is `none`, `prepare.encoding` is `raw`
    or `original`, and nothing is converted."""
    leave_out: PathList = ()
    """Images that are left out, whatever they are: their paths, as `source` of the index and the
    lists beside it have them, or folders, each with a slash at its end; or a text file with a path
    a line, as `image-pipeline browse` writes it, which is read when the options are. They are
    skipped as `left_out`."""
    label_pattern: str | None = r"(?P<label>[^/]+)/.+"
    """Matched from the start of an image's path below the folder; its group `label` is the class.
    The default reads `<class>/<file>`. None: the images have no labels."""
    labels: ClassNameOptions | None = None
    """Which names mean the same class, or tag, or class of boxes. None: each is one of its own."""
    classes: tuple[str, ...] | None = None
    """The labels that there may be, in the order of their ids; images of any other are quarantined
    as `unknown_label`. None: all, in the order of their names."""
    class_ids: bool = False
    """Each record also has `image/class/label`, the number of its class, which TensorFlow's Model
    Garden and TFDS read: 20 to 40 bytes a record. It counts from 0 in the order of `classes`, or of
    the sorted names of all classes found: then a class that is new may change all records, and two
    data sets number alike only if they have the same classes."""
    masks: MaskOptions | None = None
    """Each image has a mask, which says of what class each pixel is, and is stored with it. Then
    images have no labels, unless `label_pattern` is set or a table has them. (A table's column
    `mask` is enough to say so.)"""
    generator: GeneratorOptions | None = None
    """How a Python generator is run, if the source is one."""
    video: VideoOptions | None = None
    """Videos are frames, each an image. Patterns are matched with the video's path. None: videos
    are not images."""
    group_pattern: str | None = None
    """The same for `group`: images of one group (a patient, a scene) share a split. So do groups
    that have a byte-identical image in common."""
    split_pattern: str | None = None
    """The same for `split`: where it matches, the path decides the split, even if that divides a
    group; the manifest counts such groups as `straddling`. Images that must stay with such an image
    follow it."""
    split_names: dict[str, str] = pydantic.Field(default_factory=dict)
    """Splits that have other names in paths, e.g. `{val: eval}` for a folder `val/`."""
    splits: dict[str, pydantic.PositiveFloat] = pydantic.Field(
        default_factory=lambda: {"train": 0.9, "eval": 0.1}
    )
    """Each split's name and share, adding up to 1. Unless patterns or the next three options say
    otherwise, an image's split depends on its content only."""
    follow_links: bool = False
    """Whether links that leave the images folder are followed, so that their targets are read and
    stored; and rows of a table that leave its `root_dir`, through links or not. Otherwise they are
    quarantined as `outside`, unread. Links within the folder are always followed."""
    duplicates: Literal["keep_first", "keep_all", "keep_as_given", "error"] = "keep_first"
    """Byte-identical files: store the first by path, or all of them (in the split of the first, or
    as given, each in the split that its own folder, row or file names), or stop."""
    conflicting_labels: Literal["quarantine", "keep", "error"] = "quarantine"
    """Byte-identical files under several classes, of which at most one can be right: quarantine
    all of them as `conflicting_label`, or treat them as `duplicates` says, where the first by path
    wins, or stop."""
    near_duplicates: int | None = pydantic.Field(default=None, ge=0, le=8)
    """Images that look alike share a split: those whose 64-bit perceptual hashes differ in at most
    this many bits, and in turn those near to them. 4 finds resized, recompressed and brightened
    copies, and unrelated pictures about once in 10**13 pairs if bits were random, but no mirrored
    or cropped copies. All are kept; `near_duplicates.jsonl` lists them. Costs under 1 ms per image.
    None: no search."""
    stratify: bool | str = False
    """Every class gets its exact share in each split, to within one image (or the largest group),
    and one in `train`, unless all classes have one only; so does every value of a table's column,
    if its name is given. Adding data may then move a few images to another split, which otherwise
    can only happen to images that share a unit with a new one."""
    shard_bytes: pydantic.PositiveInt = 128 * 2**20
    """Target size of a shard, in bytes: a split has the fewest shards that do not exceed it on
    average."""
    shards: pydantic.PositiveInt | None = None
    """Exact number of shards per split, instead of `shard_bytes`."""
    max_bad_fraction: float = pydantic.Field(default=0.01, ge=0, le=1)
    """The run fails if a larger share of the files has to be quarantined, also for conflicting
    labels. Skipped files do not count."""
    seed: int = 0
    """Changes the order of records, and nothing else."""
    threads: pydantic.NonNegativeInt = 0
    """Threads per task; 0 means one more than there are cores, so that none is idle while a thread
    waits for a file, and, if the images are at a URI, 64 that read besides those that decode. Never
    changes a byte of the output."""

    understood: tuple[str, ...] = ()
    """What was inferred of what the source means, a sentence each. Ingest fills it in."""

    rules = (
        *(Rule(functools.partial(_refuse_pattern, group)) for group in ("label", "group", "split")),
        Rule(
            lambda options: options.near_duplicates is not None and options.prepare.is_deep,
            "near_duplicates compares 8-bit gray or RGB images only, but prepare.dtype or "
            "prepare.channels is set; leave near_duplicates out.",
        ),
        Rule(
            lambda options: (
                options.in_place
                and (options.prepare.resize, options.prepare.encoding) not in _AS_THEY_ARE
            ),
            "in_place needs prepare.resize=none and prepare.encoding=raw or original, got "
            "{options.prepare.resize} and {options.prepare.encoding}; set them.",
        ),
        Rule(
            lambda options: options.in_place and options.prepare.is_set("depth"),
            "in_place stores no values, but prepare.depth makes other ones; leave one of them out.",
        ),
        Rule(
            lambda options: options.in_place and options.video is not None,
            "in_place cannot read frames of videos; leave out in_place or video.",
        ),
        Rule(
            lambda options: options.video is not None and options.masks is not None,
            "frames of videos have no masks; leave out ingest.video or ingest.masks.",
        ),
        Rule(
            lambda options: (
                _has_templates(options)
                and not names_in(options.masks.images) == names_in(options.masks.masks) != set()
            ),
            "masks.images and masks.masks must have the same names in braces, such as "
            "images/{{key}}.* and masks/{{key}}.png, got {options.masks.images!r} and "
            "{options.masks.masks!r}.",
        ),
        Rule(
            lambda options: _has_templates(options) and options.masks.images == options.masks.masks,
            "masks.images and masks.masks must differ, got {options.masks.images!r} twice.",
        ),
        Rule(
            lambda options: (
                _has_templates(options)
                and [
                    t
                    for t in (options.masks.images, options.masks.masks)
                    if t[:1] == "/" or t[:2] == "./"
                ]
            ),
            "masks' paths are relative to the images folder, got {found[0]!r}.",
        ),
        Rule(
            lambda options: abs(sum(options.splits.values()) - 1) > 1e-9,
            "the shares in splits must add up to 1, got {options.splits}; for example "
            "{{train: 0.8, eval: 0.1, test: 0.1}}",
        ),
        Rule(
            lambda options: (
                (unknown := {*options.split_names.values()} - {*options.splits})
                and (", ".join(options.splits), ", ".join(sorted(unknown)))
            ),
            "split_names must map to splits, {found[0]}, got {found[1]}; add it to splits.",
        ),
        Rule(
            lambda options: [n for n in options.splits if not re.fullmatch(r"[A-Za-z0-9_]+", n)],
            "split names are letters, digits and _, got {found}; rename them.",
        ),
    )

    @functools.cached_property
    def _left_out(self) -> tuple[frozenset[str], tuple[str, ...]]:
        return frozenset(self.leave_out), tuple(each for each in self.leave_out if each[-1:] == "/")

    def is_left_out(self, path: str) -> bool:
        """Whether `leave_out` names a path, or a folder that it is in."""
        paths, folders = self._left_out
        return path in paths or path.startswith(folders)

    @property
    def record_columns(self) -> tuple[record.Column, ...]:
        """All columns of the records; of a table, once its columns are known."""
        further = record.further_columns(self.column_types)
        return record.all_columns(further, self._has_masks, self.class_ids)

    @property
    def label_kind(self) -> LabelKind:
        """The kind of labels; of a table, once its columns are known."""
        return _find_kind(tuple(self.column_types.items()), self._has_masks)

    @property
    def _has_masks(self) -> bool:
        return self.masks is not None or self.columns.get("mask") is not None

    @property
    def path_label_pattern(self) -> str | None:
        """As it is used: unless it is set, images with masks or boxes have no labels.

        Nor have those that are named after their rows' numbers, for want of another name.
        """
        is_set = self.label_pattern != _default("label_pattern")
        has_others = self.label_kind in (MASKS, BOXES) or self.columns.get("path", "") is None
        return self.label_pattern if is_set or not has_others else None

    def say_understood(self, sentences: Iterable[str]) -> "IngestOptions":
        """The options with further sentences of what was inferred, each once."""
        known = tuple(dict.fromkeys((*self.understood, *sentences)))
        return self.model_copy(update={"understood": known}) if known else self

    def stored_form(self) -> dict:
        """The options that affect the output's bytes (threads and time-outs never do)."""
        left_out: dict[str, Any] = dict.fromkeys(["threads", *self._unset()], True)
        return self.model_dump(mode="json", exclude={"generator": {"timeout_s"}, **left_out})

    def to_json(self) -> str:
        """All options, but for newer ones that are not set: TFX knows earlier runs by this text."""
        return self.model_dump_json(exclude=self._unset())

    def _unset(self) -> set[str]:
        return {name for name in _SINCE if not self.is_set(name)}

    @classmethod
    def read_stored(cls, stored: dict) -> "IngestOptions":
        """The options that a data set was written with, from `options` of its manifest.

        Raises:
          pydantic.ValidationError: if they are another version's.
        """
        return cls.model_validate(_BEFORE | stored)


@functools.cache  # Asked for each image.
def _default(name: str) -> object:
    return IngestOptions.model_fields[name].get_default(call_default_factory=True)


@functools.lru_cache  # Asked for each image.
def _find_kind(types: tuple[tuple[str, record.ColumnType], ...], has_masks: bool) -> LabelKind:
    return find_kind(record.all_columns(record.further_columns(dict(types)), has_masks))


def flatten_options(stored: dict) -> dict:
    """Options from `IngestOptions.stored_form`, by their names in the configuration.

    Without what ingest has found in the images: it is not an option that differs.
    """
    nested = {f"ingest.prepare.{name}": value for name, value in stored["prepare"].items()}
    if (depth := nested.get("ingest.prepare.depth")) is not None:
        nested["ingest.prepare.depth"] = {n: depth[n] for n in ("low", "high")}
    return nested | {f"ingest.{n}": value for n, value in stored.items() if n != "prepare"}


class SpanOptions(Options):
    """Which spans are used together, if the images are a pattern such as `day-{SPAN}`."""

    window: pydantic.PositiveInt | Literal["all"] = 1
    """How many of the latest spans are analysed, trained on and evaluated together, each ingested
    separately and only once. `all` takes every span up to the one being run. With more than one,
    the analysis of each is cached, as with `transform.keep_cache`."""
