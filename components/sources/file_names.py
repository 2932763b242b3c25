"""What names of files say: patterns of several, the ending that says what one is, its split.

Patterns are those of a shell, `*`, `?`, `[a-c]`, `{000..012}` and `{a,b}`; or `{SPLIT}`.
"""

import glob
import itertools
import os
import re
from collections.abc import Sequence

from image_pipeline.components import files
from image_pipeline.components.dataset.paths import OF_SPLIT
from image_pipeline.components.errors import UserError

SPLIT = "{SPLIT}"
TFRECORD_PREFIX = "tfrecord:"
"""Stands before paths of TFRecords, whose names have no ending: `train-00000-of-00010`."""
Files = list[tuple[str, str | None]]
"""Paths, and the split that each one's name names."""
WILD = re.compile(r"[*?\[]|\{[^{}]*(?:\.\.|,)[^{}]*\}")
"""What makes a path a pattern."""

_BRACES = re.compile(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}")
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "eval", "evaluation", "dev"), "eval"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""Common names of splits, and the pipeline's own name for each."""

_EMPTY_WORDS = ("set", "npy")
_WORD = re.compile(r"[^\W_]+")
_OF_SHARD = re.compile(r"([^\W\d]\w*?)-\d+-of-\d+\b.*")
_CASED_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_ZARR_ZIP = ".zarr.zip"
_FOLDERS_AS_FILES = (".zarr",)
# Of TFRecords, `x.tfrecord.gz`, `x.tfrecord-00000-of-00010` and patterns; of tar files `x.tar.gz`.
_NUMBER = r"[\d*?\[\]{},.]+"
_OTHER_ENDINGS = re.compile(
    rf"[._-](?P<tfrecord>tfrec(?:ords?)?|(?<=\.)records?)(?:\.gz|\.zlib)?(?:-{_NUMBER}(?:-of-{_NUMBER})?)?(?:\.gz)?$"
    r"|\.(?:tar\.gz|tgz)$"
)


def find_matching(pattern: str) -> list[str]:
    """The files of a pattern, sorted, and what braces name, whether or not it is there.

    What is not a pattern, or is the name of a file, is that file.
    """
    if not WILD.search(pattern) or (files.is_local(pattern) and os.path.isfile(pattern)):
        return [pattern]
    found: set[str] = set()
    for each in _expand(pattern):
        folder, _, name = each.rpartition("/")
        if not WILD.search(each):
            found.add(each)
        elif files.is_local(each):
            found.update(path for path in glob.glob(each) if os.path.isfile(path))
        else:
            found.update(files.list_files(folder, name))
    return sorted(found)


def _expand(pattern: str) -> list[str]:
    """What a shell makes of braces."""
    found = _BRACES.search(pattern)
    if found is None:
        return [pattern]
    first, last, listed = found.groups()
    if first is None:
        inside = listed.split(",")
    else:
        width = len(first) if first.startswith("0") else 0
        inside = [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    before, after = pattern[: found.start()], pattern[found.end() :]
    return list(itertools.chain.from_iterable(_expand(f"{before}{i}{after}") for i in inside))


def find_split(path: str) -> str | None:
    """The split that a file's name, or else its folder's, names; None if none does.

    Such as `train` of `cifar-train-00000-of-00002.parquet`; whatever is before the number of a
    shard, as `extra` in `extra-00000-of-00002.parquet`; and of a folder as TFX names them, as
    `holdout` of `Split-holdout/data_tfrecord-00000-of-00001`.
    """
    folder, _, name = path.rpartition("/")
    if (of_folder := folder.rpartition("/")[2]).startswith(OF_SPLIT) and of_folder != OF_SPLIT:
        return of_folder.removeprefix(OF_SPLIT)
    for part in (name, folder.rpartition("/")[2]):
        if usual := [word for word in _WORD.findall(part) if word.lower() in SPLIT_NAMES]:
            return usual[-1]
    shard = _OF_SHARD.fullmatch(name)
    return shard[1] if shard else None


def split_of(name: str) -> str:
    """The word of an array's name that names a split, as of `train/X`; empty if none does."""
    return next((word for word in _WORD.findall(name.lower()) if word in SPLIT_NAMES), "")


def split_named(folder: str) -> str | None:
    """The split that a folder's name names, as `seg_train`, `train2017` and `TestImages` do."""
    words = {word.lower() for word in _CASED_WORD.findall(folder)}
    found = {
        SPLIT_NAMES[part]
        for word in words
        for part in (word, word.removesuffix("set"))
        if part in SPLIT_NAMES
    }
    return found.pop() if len(found) == 1 else None


def split_in_path(path: str) -> str | None:
    """The split that the first folder of a path to name one names; None if none does."""
    return next((split for part in path.split("/") if (split := split_named(part))), None)


def name_of(name: str) -> str:
    """What an array is called but for its groups and its split: `x` of `train/X` and `x_train`."""
    words = _WORD.findall(name.lower().rpartition("/")[2])
    return "_".join(word for word in words if word not in {*SPLIT_NAMES, *_EMPTY_WORDS})


def is_folder(images: str) -> bool:
    """Whether it is a folder on this machine, and not one that is read as a file."""
    is_one = files.is_local(images) and os.path.isdir(images)
    return is_one and ending_of(images) not in _FOLDERS_AS_FILES


def ending_of(path: str) -> str:
    """A path's ending, such as ".csv"; ".tfrecord" and ".tar" of all names that mean those."""
    path = path.rstrip("/").lower()
    if usual := _OTHER_ENDINGS.search(path):
        return ".tfrecord" if usual["tfrecord"] else ".tar"
    return _ZARR_ZIP if path.endswith(_ZARR_ZIP) else os.path.splitext(path)[1]


def find_folder(images: str) -> str:
    """The folder that files are in, of all of a pattern; a folder of tables itself."""
    images = images.removeprefix(TFRECORD_PREFIX).rstrip("/")
    if is_folder(images):
        return images
    if wild := WILD.search(images):
        images = images[: wild.start()]
    return images.rpartition("/")[0] or ("/" if images[:1] == "/" else ".")


def list_splits(path: str) -> Files:
    """The tables of a pattern with `{SPLIT}`."""
    before, _, after = path.partition(SPLIT)
    if "/" in after or SPLIT in after:
        raise UserError(f"{SPLIT} must be once in the name of a table, got {path!r}.")
    if files.is_local(path):
        found = glob.glob(f"{glob.escape(before)}*{glob.escape(after)}")
    else:
        folder, _, name = path.rpartition("/")
        found = files.list_files(folder, name.replace(SPLIT, "*"))
    pattern = re.compile(f"{re.escape(before)}(\\w+){re.escape(after)}")
    named: Files = [
        (each, match[1]) for each in sorted(found) if (match := pattern.fullmatch(each))
    ]
    if not named:
        raise UserError(f"No table is called {path!r} with a split's name for {SPLIT}.")
    return named


def name_tables(tables: Sequence[str]) -> list[str]:
    """What to call tables in messages: their names, with the folders that tell them apart."""
    bare = [path.removeprefix(TFRECORD_PREFIX) for path in tables]
    names = [path.rpartition("/")[2] for path in bare]
    if len(set(names)) == len(names):
        return names
    common = os.path.commonpath([path.rpartition("/")[0] for path in bare])
    return [path[len(common) :].lstrip("/") for path in bare]
