"""Files of boxes in a folder of images: COCO's, which are read, YOLO's and Pascal VOC's."""

import collections
import os
import re
from collections.abc import Collection, Mapping, Sequence

from image_pipeline.components.sources.file_names import SPLIT_NAMES
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.init.layout import list_images_of

_COCO = re.compile(r"(.*/)?([^/]*coco[^/]*|(_?annotations|instances)[^/]*)\.json", re.IGNORECASE)
_SPLIT = re.compile("|".join(sorted(SPLIT_NAMES, key=len, reverse=True)), re.IGNORECASE)
_YOLO = re.compile(rb"\s*\d+(\s+[\d.e+-]+){4,}\s*")
_MOST_BYTES = 10**6  # of a file of boxes that is looked at
_KINDS = {".txt": "YOLO", ".xml": "Pascal VOC"}


def find_coco(paths: Collection[str]) -> str | None:
    """The COCO file of boxes in a folder, or a pattern of those of its splits.

    Args:
      paths: of all files, relative to the folder.

    Returns:
      A path or pattern relative to the folder, as `--images` takes them; None if there is none. Of
      several other files it is the one for training, as in `train/_annotations.coco.json`, or else
      the first.
    """
    found = sorted(path for path in paths if _COCO.fullmatch(path))
    patterns: dict[str, set[str]] = collections.defaultdict(set)
    for path in found:
        folder, slash, name = path.rpartition("/")
        if match := _SPLIT.search(name):
            pattern = f"{name[: match.start()]}{{SPLIT}}{name[match.end() :]}"
            patterns[f"{folder}{slash}{pattern}"].add(SPLIT_NAMES[match[0].lower()])
    whole = (pattern for pattern, splits in patterns.items() if {"train"} < splits)
    return next(
        whole, min(found, key=lambda path: ("train" not in path.lower(), path), default=None)
    )


def explain_boxes(source: Source, refs: Mapping[str, ImageRef]) -> str | None:
    """What to do about files of boxes that ingest does not read; None if there are none.

    Args:
      source: of the images.
      refs: of all its files, by their paths.
    """
    if not any(path.lower().endswith(tuple(_KINDS)) for path in refs):
        return None
    images = {_stem(path) for path in list_images_of(refs)}
    for ending, kind in _KINDS.items():
        own = {_stem(path): path for path in refs if path.lower().endswith(ending)}
        if 2 * len(images & own.keys()) >= len(images) and _are_boxes(
            source, [refs[own[stem]] for stem in sorted(own)], kind
        ):
            some = next(iter(own.values()))
            return (
                f"{source.root!r} has boxes as {kind} has them, such as {some!r}: these are to be "
                "made a table first, by the lines in docs/boxes.md; then give the table."
            )
    return None


def _stem(path: str) -> str:
    return os.path.splitext(path.rpartition("/")[2])[0]


def _are_boxes(source: Source, refs: Sequence[ImageRef], kind: str) -> bool:
    """Whether the first file that is not empty has boxes: captions may be beside images, too."""
    for ref in refs:
        content = source.read(ref, _MOST_BYTES)
        if content.strip():
            line = content.strip().splitlines()[0]
            return b"<annotation" in content if kind != "YOLO" else bool(_YOLO.fullmatch(line))
    return False
