"""Guesses from the paths below a folder where each image's class and split are named."""

import collections
import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from image_pipeline.components.extras import find_missing
from image_pipeline.components.images.by_extras import ENDINGS as EXTRA_ENDINGS
from image_pipeline.components.meaning.counted_folders import Tally, list_images_of
from image_pipeline.components.meaning.folder_meaning import find_meaning, find_split_folders
from image_pipeline.components.meaning.masks import ENDINGS, Masks, has_mask_name
from image_pipeline.components.meaning.meanings import NO_CLASSES, Meaning, choose_eval
from image_pipeline.components.sources.options import GeneratorOptions, VideoOptions
from image_pipeline.components.sources.pairs import match_template
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.references import ImageRef

_READ_ENDINGS = ENDINGS | {".apng", ".dib", ".mpo", ".npy"}
_UNREAD_ENDINGS = IMAGE_ENDINGS - _READ_ENDINGS
_FEW_IMAGES = 500
_NINE_TENTHS = {"train": 0.9, "eval": 0.1}
_SHARES: dict[int, tuple[float, ...]] = {2: (0.9, 0.1), 3: (0.8, 0.1, 0.1)}


def list_missing(endings: Iterable[str]) -> dict[str, str]:
    """Which of these endings an extra reads that is not installed, and the extra."""
    extras = {each: EXTRA_ENDINGS[each] for each in endings if each in EXTRA_ENDINGS}
    return {each: extra for each, extra in extras.items() if find_missing(extra, "")}


@dataclasses.dataclass(frozen=True)
class Layout:
    """What the paths below a folder seem to mean.

    Attributes:
      kind: "class folders", "split folders", "class in the file name", "image/mask pairs", "no
        classes", "labels that the source names", "the first items of a generator", or what a table
        is called, see `SourceKind.name`.
      images: number of files with an image's ending.
      others: number of all other files.
      label_pattern: for `ingest.label_pattern`.
      classes: number of images of each class, or tag; or of boxes of each class.
      split_pattern: for `ingest.split_pattern`.
      split_names: for `ingest.split_names`.
      splits: number of images in each split that paths name, by the pipeline's names.
      columns: for `ingest.columns`, of a table.
      column_types: for `ingest.column_types`.
      root_dir: for `ingest.root_dir`.
      follow_links: for `ingest.follow_links`.
      leave_out: for `ingest.leave_out`.
      further: further options of ingest, by their names.
      tag_separator: for `ingest.tag_separator`.
      values: the labels, if they are numbers.
      masks: for pairs, the masks found; otherwise None.
      mask_classes: their classes by colour or level, if a file names them.
      levels: what some masks show, see `label_map.read_levels`.
      video: for `ingest.video`, if the images are videos.
      generator: for `ingest.generator`, if one makes the images. Then all numbers are those of its
        first items: nobody knows how many there are.
      unread: files named as images that are not read, such as .svg, or .heic without the extra that
        reads it: how many have which ending.
      inferred: what was inferred of what folders mean, a sentence each.
    """

    kind: str
    images: int
    others: int
    label_pattern: str | None = None
    classes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    split_pattern: str | None = None
    split_names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    splits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    columns: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    column_types: Mapping[str, str] = dataclasses.field(default_factory=dict)
    root_dir: str | None = None
    follow_links: bool = False
    leave_out: tuple[str, ...] = ()
    further: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tag_separator: str | None = None
    values: Sequence[float] = ()
    masks: Masks | None = None
    mask_classes: Mapping[str, str | int] = dataclasses.field(default_factory=dict)
    levels: Sequence[int | str] = ()
    video: VideoOptions | None = None
    generator: GeneratorOptions | None = None
    unread: Mapping[str, int] = dataclasses.field(default_factory=dict)
    inferred: tuple[str, ...] = ()

    @property
    def kind_of_label(self) -> str:
        """What labels images have: "masks", "boxes", "tags", "values" or "classes"."""
        if self.has_masks:
            return "masks"
        if "boxes" in self.column_types:
            return "boxes"
        kinds = {"strings": "tags", "float": "values"}
        return kinds.get(self.column_types.get("label", ""), "classes")

    @property
    def has_masks(self) -> bool:
        """Whether images have masks, in the folder or by the table."""
        return self.masks is not None or self.columns.get("mask") is not None


def guess_layout(paths: Collection[str], folder: str = "", chosen: Meaning | None = None) -> Layout:
    """What a folder's paths mean, as ingest understands them.

    Args:
      paths: of all files, relative to the folder, with slashes.
      folder: for messages.
      chosen: what it means, if that was asked.

    Raises:
      UnclearLayout: if several meanings are possible.
    """
    images = list_images_of(paths)
    meaning = chosen or find_meaning(folder, Tally(paths), lambda: paths)
    has_classes = meaning.kind != NO_CLASSES
    pattern = meaning.label_pattern if has_classes else None
    own, splits, split_pattern = images, meaning.splits, meaning.split_pattern
    if meaning.masks is not None:
        own, _ = split_pairs(images, meaning.masks)
        split_pattern, splits = find_split_folders(Tally(own).folders())
    named = choose_eval(splits)
    kept = [path for path in own if not path.startswith(meaning.leave_out)]
    return Layout(
        meaning.kind,
        len(images) if meaning.masks is not None else len(kept),
        len(paths) - len(images),
        label_pattern=pattern,
        classes=_count(pattern, "label", kept),
        split_pattern=split_pattern,
        split_names={each: name for each, name in named.items() if each != name},
        splits=_count_splits(split_pattern, named, kept),
        leave_out=meaning.leave_out,
        masks=meaning.masks,
        unread=_count_unread(paths),
        inferred=meaning.inferred,
    )


def find_annotated(refs: Iterable[ImageRef]) -> Layout | None:
    """The layout of images whose labels a source of the user's own says; None if it says none."""
    counts = collections.Counter(
        ref.annotations.label for ref in refs if ref.annotations is not None
    )
    classes = {label: counts[label] for label in sorted(filter(None, counts))}
    return (
        Layout("labels that the source names", counts.total(), 0, classes=classes)
        if classes
        else None
    )


def _count_unread(paths: Iterable[str]) -> dict[str, int]:
    endings = collections.Counter(map(_ending, paths))
    unread = _UNREAD_ENDINGS | list_missing(endings).keys()
    return {each: endings[each] for each in sorted(endings) if each in unread}


def _ending(path: str) -> str:
    """As `os.path.splitext` has it, in lower case, in half the time."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def split_pairs(paths: Collection[str], masks: Masks) -> tuple[list[str], list[str]]:
    """The images and the masks among paths, as the templates tell them."""
    if masks.templates is None:
        return list_images_of(paths), []
    own = [path for path in paths if match_template(masks.templates[1], path) is not None]
    others = {path for path in paths if not has_mask_name(path)}.difference(own)
    image = masks.templates[0]
    return [p for p in paths if p in others and match_template(image, p) is not None], own


def _count(pattern: str | None, group: str, paths: Iterable[str]) -> dict[str, int]:
    """How many paths name which class, or split."""
    matches = (re.match(pattern, path) for path in paths) if pattern else ()
    return dict(sorted(collections.Counter(found[group] for found in matches if found).items()))


def _count_splits(
    pattern: str | None, named: Mapping[str, str], paths: Iterable[str]
) -> dict[str, int]:
    splits: collections.Counter[str] = collections.Counter()
    for folder, count in _count(pattern, "split", paths).items():
        splits[named[folder]] += count
    return {name: splits[name] for name in ("train", "eval", "test") if name in splits}


def choose_shares(layout: Layout) -> Mapping[str, float]:
    """The share of each split."""
    if layout.splits:
        count = len(layout.splits)
        shares = _SHARES.get(count, (1 / count,) * count)
        return dict(zip(layout.splits, shares, strict=True))
    return {"train": 0.8, "eval": 0.2} if has_few(layout) else _NINE_TENTHS


def has_few(layout: Layout) -> bool:
    """Whether a tenth of the images is too little to evaluate on."""
    return layout.generator is None and layout.images < _FEW_IMAGES
