"""What the formats of annotations in folders have in common: finding files, and counting them."""

import collections
import functools
import itertools
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator

from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.reading import IMAGE_ENDINGS
from image_pipeline.components.sources.understood import noticed

_MOST_DEEP = 8  # folders below the one that is given; ImageNet's annotations are in the fifth
_MOST_GLANCED = 64  # folders that are called otherwise than usual
_MOST_LOOKED_AT = 64  # entries of a folder, to tell what it is
_OF_SPLITS = ("train", "training", "valid", "val", "validation", "test", "testing", "dev")
_PLACES = (
    *("", "annotations", "Annotations", "annotations/xmls", "labels", "images", *_OF_SPLITS),
    *(f"{each}/{inner}" for each in _OF_SPLITS for inner in ("labels", "images", "Annotations")),
    *(f"{outer}/{each}" for each in _OF_SPLITS for outer in ("labels", "images", "annotations")),
)
_IMAGE_FOLDERS = ("JPEGImages", "images", "Images", "imgs", "img", "")
# In a folder of very many files, these may not be among the first.
_MARKERS = (
    *("metadata.csv", "metadata.jsonl", "metadata.parquet", "_annotations.coco.json"),
    *("data.yaml", "data.yml", "dataset.yaml", "classes.txt", "obj.names", "panoptic.json"),
)


Look = Callable[[str, int], Iterator[tuple[str, list[str], list[str]]]]
"""`walk` or `glance`."""


def walk(folder: str, most_deep: int = _MOST_DEEP) -> Iterator[tuple[str, list[str], list[str]]]:
    """The folders below one, itself first, each with its subfolders and files by name.

    Names that begin with a dot are left out; links to folders are not followed.

    Raises:
      UserError: if one cannot be listed: what it holds would be missing.
    """
    yield from _walk(folder, "", most_deep)


def _walk(root: str, below: str, left: int) -> Iterator[tuple[str, list[str], list[str]]]:
    try:
        with os.scandir(os.path.join(root, below)) as entries:
            found = sorted((each.name, each.is_dir(follow_symlinks=False)) for each in entries)
    except OSError as error:
        path = os.path.join(root, below)
        raise UserError(f"Cannot list the folder {path!r}: {error.strerror}.") from error
    folders = [name for name, is_folder in found if is_folder and name[0] != "."]
    yield below, folders, [name for name, is_folder in found if not is_folder and name[0] != "."]
    for name in folders if left else ():
        yield from _walk(root, f"{below}/{name}" if below else name, left - 1)


def glance(folder: str, most_deep: int = _MOST_DEEP) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `walk`, but where annotations usually are, and in some others, and only the first files.

    So it takes a millisecond, however many images a folder has.
    """
    try:
        found = _glance(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return
    yield from (each for each in found if not each[0] or each[0].count("/") < most_deep)


@functools.lru_cache(maxsize=64)
def _glance(folder: str, modified_ns: int) -> tuple[tuple[str, list[str], list[str]], ...]:
    found = []
    places, others = [each for each in _PLACES if os.path.isdir(os.path.join(folder, each))], 0
    for place in places:  # What is found in them is added while they are looked at.
        path = os.path.join(folder, place)
        try:
            with os.scandir(path) as entries:
                first = [(e.name, e.is_dir()) for e in itertools.islice(entries, _MOST_LOOKED_AT)]
        except OSError:
            continue
        names = {name for name, is_folder in first if not is_folder and name[0] != "."}
        names |= {name for name in _MARKERS if os.path.isfile(os.path.join(path, name))}
        folders = sorted(name for name, is_folder in first if is_folder and name[0] != ".")
        found.append((place, folders, sorted(names)))
        for below in (f"{place}/{name}".lstrip("/") for name in folders):
            if others < _MOST_GLANCED and below.count("/") < _MOST_DEEP and below not in places:
                places.append(below)
                others += 1
    return tuple(found)


def find_files(
    folder: str, ending: str, look: Look = walk, most_deep: int = _MOST_DEEP
) -> Iterator[tuple[str, str]]:
    """The files of an ending below a folder: where in it each is, and its name."""
    for below, _, names in look(folder, most_deep):
        yield from ((below, name) for name in names if name.lower().endswith(ending))


def holds(folder: str, ending: str, begins: re.Pattern[bytes]) -> bool:
    """Whether, at a glance, a file of this ending begins with what the pattern finds."""
    found = find_files(folder, ending, glance)
    return any(begins.search(read_head(os.path.join(folder, *each))) for each in found)


def images_by_stem(folder: str) -> dict[str, str]:
    """The names of the images in a folder, by what they are called without their endings."""
    try:
        return _list_images(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return {}


@functools.lru_cache(maxsize=64)
def _list_images(folder: str, modified_ns: int) -> dict[str, str]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(each.name for each in entries)
    except OSError:
        return {}
    found = (os.path.splitext(name) for name in names)
    return {stem: stem + ending for stem, ending in found if ending.lower() in IMAGE_ENDINGS}


def find_image(folder: str, below: str, stem: str, stated: str) -> tuple[str, bool]:
    """The path of an annotation's image, as it is there, or else as the annotation says.

    Args:
      folder: the one that is read.
      below: the annotation's own, in it.
      stem: what the annotation is called without its ending, which counts more than `stated`.
      stated: the name or path of the image that the annotation gives; "" if it gives none.

    Returns:
      The path, and whether the annotation says another image, which is there, too.
    """
    stated = stated.replace("\\", "/").rpartition("/")[2]
    beside = os.path.join(folder, below)
    places = [beside, *(os.path.join(beside, "..", each) for each in _IMAGE_FOLDERS)]
    places += [os.path.join(folder, each) for each in _IMAGE_FOLDERS]
    places += _mirrored(folder, below)
    stated_stem = os.path.splitext(stated)[0]
    for place in places:
        images = images_by_stem(os.path.normpath(place))
        for each in (stem, stated_stem):
            if each in images:
                is_renamed = stated_stem != each and stated_stem in images
                # Others of its name may be masks of it, or thumbnails.
                is_stated = stated_stem == each and os.path.isfile(os.path.join(place, stated))
                name = stated if is_stated else images[each]
                return os.path.abspath(os.path.join(place, name)), is_renamed
    return os.path.abspath(os.path.join(beside, stated or f"{stem}.jpg")), False


@functools.lru_cache(maxsize=64)
def _mirrored(folder: str, below: str) -> tuple[str, ...]:
    """Folders whose path differs in one part from that of the annotations.

    ImageNet has `Data/CLS-LOC/train/n01440764` for `Annotations/CLS-LOC/train/n01440764`.
    """
    parts, found = below.split("/"), []
    for number in range(len(parts) - 1):
        above = os.path.join(folder, *parts[:number])
        with os.scandir(above) as entries:
            names = sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))
        found += [os.path.join(above, name, *parts[number + 1 :]) for name in names]
    return tuple(path for path in found if os.path.isdir(path))


def notice_others(form: str, folder: str, taken: Collection[str]) -> None:
    """Says how many images below a folder no annotation is of, and so are not read."""
    stems = (os.path.splitext(name) for _, _, names in walk(folder) for name in names)
    others = sum(end.lower() in IMAGE_ENDINGS and stem not in taken for stem, end in stems)
    if others:
        noticed(f"{form}: images without annotations are not read: {others:,}")


def read_head(path: str, most_bytes: int = 2**12) -> bytes:
    """How a file begins; nothing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(most_bytes)
    except OSError:
        return b""


def say_splits(splits: Iterable[str | None], what: str = "splits") -> str:
    """How many images each split has, as the end of a sentence; "" if none is named."""
    counts = collections.Counter(split for split in splits if split)
    shares = ", ".join(f"{split} {count:,}" for split, count in sorted(counts.items()))
    return f"; {what}: {shares}" if shares else ""
