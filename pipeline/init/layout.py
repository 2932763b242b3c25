"""Guesses from the paths below a folder where each image's class and split are named."""

import collections
import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from image_pipeline.components.ingest.masks import ENDINGS, Masks, find_masks
from image_pipeline.components.sources.file_names import SPLIT_NAMES
from image_pipeline.components.sources.frames import VIDEO_ENDINGS
from image_pipeline.components.sources.options import GeneratorOptions, VideoOptions
from image_pipeline.components.sources.pairs import match_template
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.references import ImageRef

# ImageNet's synset; a name and a number, as in cat.12.jpg; all before the first underscore.
_FLAT_PATTERNS = (
    r"(?P<label>n\d{8})_.+",
    r"(?P<label>[^/]*?[^/\d._ -])[._ -]*\d+\.[^./]+$",
    r"(?P<label>[^/_]+)_.+",
)
_READ_ENDINGS = ENDINGS | {".apng", ".dib", ".mpo", ".npy"}
_UNREAD_ENDINGS = IMAGE_ENDINGS - _READ_ENDINGS
_KINDS = (ENDINGS, (".wav", ".flac"), VIDEO_ENDINGS, (".npy",), ("",))
_FOLDERS = r"(?P<label>[^/]+)/.+"
_ENOUGH = 0.9  # of the images must fit a guess; the rest will be quarantined


@dataclasses.dataclass(frozen=True)
class Layout:
    """What the paths below a folder seem to mean.

    Attributes:
      kind: "class folders", "split folders", "class in the file name", "image/mask pairs", "no
        classes", "labels that the source says", "the first items of a generator", or what a table
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
      tag_separator: for `ingest.tag_separator`.
      values: the labels, if they are numbers.
      masks: for pairs, the masks found; otherwise None.
      levels: what some masks show, see `mask_levels.read_levels`.
      video: for `ingest.video`, if the images are videos.
      generator: for `ingest.generator`, if one makes the images. Then all numbers are those of its
        first items: nobody knows how many there are.
      unread: of the other files, those named as images that are not read, such as .heic: how many
        have which ending.
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
    tag_separator: str | None = None
    values: Sequence[float] = ()
    masks: Masks | None = None
    levels: Sequence[int | str] = ()
    video: VideoOptions | None = None
    generator: GeneratorOptions | None = None
    unread: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def kind_of_label(self) -> str:
        """What images are said to be: "masks", "boxes", "tags", "values" or "classes"."""
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


def guess_layout(paths: Collection[str]) -> Layout:
    """Guesses a folder's layout.

    Args:
      paths: of all files, relative to the folder, with slashes.
    """
    images = list_images_of(paths)
    others = len(paths) - len(images)
    layout = (
        _guess_pairs(images, others)
        or _guess_splits(images, others)
        or _guess_folders(images, others)
        or _guess_names(images, others)
        or Layout("no classes", len(images), others)
    )
    return dataclasses.replace(layout, unread=_count_unread(paths))


def find_said(refs: Iterable[ImageRef]) -> Layout | None:
    """The layout of images whose labels a source of the user's own says; None if it says none."""
    said = collections.Counter(ref.annotations.label for ref in refs if ref.annotations is not None)
    classes = {label: said[label] for label in sorted(filter(None, said))}
    return (
        Layout("labels that the source says", said.total(), 0, classes=classes) if classes else None
    )


def list_images_of(paths: Collection[str]) -> list[str]:
    """The paths that end as images do; else as sounds, videos or arrays; or not at all, as ids."""
    endings = [_ending(path) for path in paths]
    own = next((kind for kind in _KINDS if not set(kind).isdisjoint(endings)), ())
    return [path for path, ending in zip(paths, endings, strict=True) if ending in own]


def _count_unread(paths: Iterable[str]) -> dict[str, int]:
    endings = collections.Counter(map(_ending, paths))
    return {each: endings[each] for each in sorted(endings) if each in _UNREAD_ENDINGS}


def _ending(path: str) -> str:
    """As `os.path.splitext` has it, in lower case, in half the time."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def _guess_pairs(images: Sequence[str], others: int) -> Layout | None:
    masks = find_masks(lambda: images)
    if masks is None:
        return None
    own, _ = split_pairs(images, masks)
    return Layout("image/mask pairs", len(images), others, masks=masks, **_find_splits(own))


def _find_splits(images: Sequence[str]) -> dict[str, Any]:
    """Where folders at one depth are called train, val, test: what a layout says of it."""
    depth = max((path.count("/") for path in images), default=0)
    for place in range(depth):
        named = collections.Counter(
            folders[place] for path in images if len(folders := path.split("/")[:-1]) > place
        )
        splits = {each: SPLIT_NAMES.get(each.lower()) for each in sorted(named)}
        if None in splits.values() or "train" not in splits.values() or len(splits) < 2:
            continue
        own = _choose_eval({each: str(name) for each, name in splits.items()})
        return {
            "split_pattern": rf"(?:[^/]+/){{{place}}}(?P<split>{'|'.join(map(re.escape, own))})/",
            "split_names": {each: name for each, name in own.items() if each != name},
            "splits": _count_splits(own, named),
        }
    return {}


def _choose_eval(own: dict[str, str]) -> dict[str, str]:
    """Training needs a split to evaluate on: a test split, if there is no other."""
    if "eval" in own.values():
        return own
    return {first: "eval" if name == "test" else name for first, name in own.items()}


def _count_splits(own: Mapping[str, str], firsts: Mapping[str, int]) -> dict[str, int]:
    splits: collections.Counter[str] = collections.Counter()
    for first, name in own.items():
        splits[name] += firsts[first]
    return {name: splits[name] for name in ("train", "eval", "test") if name in splits}


def split_pairs(paths: Collection[str], masks: Masks) -> tuple[list[str], list[str]]:
    """The images and the masks among paths, as the templates tell them."""
    if masks.templates is None:
        return list_images_of(paths), []
    own = [path for path in paths if match_template(masks.templates[1], path) is not None]
    others = set(paths).difference(own)
    image = masks.templates[0]
    return [p for p in paths if p in others and match_template(image, p) is not None], own


def _guess_splits(images: Sequence[str], others: int) -> Layout | None:
    """Folders called train, val, test, with class folders in them."""
    firsts = collections.Counter(
        path.split("/")[0] for path in images if path.count("/") >= 2 and _split_of(path)
    )
    names = {SPLIT_NAMES[first.lower()] for first in firsts}
    if "train" not in names or len(names) < 2 or firsts.total() < _ENOUGH * len(images):
        return None
    own = _choose_eval({first: SPLIT_NAMES[first.lower()] for first in sorted(firsts)})
    pattern = rf"[^/]+/{_FOLDERS}"
    return Layout(
        "split folders",
        len(images),
        others,
        label_pattern=pattern,
        classes=_count_classes(pattern, images),
        split_pattern=f"(?P<split>{'|'.join(map(re.escape, own))})/",
        split_names={first: name for first, name in own.items() if first != name},
        splits=_count_splits(own, firsts),
    )


def _guess_folders(images: Sequence[str], others: int) -> Layout | None:
    classes = _count_classes(_FOLDERS, images)
    if len(classes) < 2 or sum(classes.values()) < _ENOUGH * len(images):
        return None
    return Layout("class folders", len(images), others, label_pattern=_FOLDERS, classes=classes)


def _guess_names(images: Sequence[str], others: int) -> Layout | None:
    """All files in one folder, and a pattern of names that gives classes of several images."""
    if any("/" in path for path in images):
        return None
    for pattern in _FLAT_PATTERNS:
        classes = _count_classes(pattern, images)
        matched = sum(classes.values())
        # A synset is a class even with a single image; other words must repeat.
        repeats = pattern == _FLAT_PATTERNS[0] or matched >= 2 * len(classes)
        if len(classes) >= 2 and repeats and matched >= _ENOUGH * len(images):
            return Layout(
                "class in the file name",
                len(images),
                others,
                label_pattern=pattern,
                classes=classes,
            )
    return None


def _count_classes(pattern: str, images: Sequence[str]) -> dict[str, int]:
    matches = (re.match(pattern, path) for path in images)
    return dict(sorted(collections.Counter(found["label"] for found in matches if found).items()))


def _split_of(path: str) -> str | None:
    return SPLIT_NAMES.get(path.split("/")[0].lower())
