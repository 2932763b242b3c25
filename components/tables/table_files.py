"""Which files are the tables that are given as images: one, those of a pattern, or of a data set.

A data set's folder is one of ours, of TensorFlow Datasets, or as Hugging Face's `datasets` saves it
(`save_to_disk`) or the hub has it (Parquet files, also in `data/`).
"""

import functools
import glob
import json
import os
import re
from collections.abc import Sequence

from image_pipeline.components import files
from image_pipeline.components.archives.web_dataset import is_web_dataset
from image_pipeline.components.dataset import paths
from image_pipeline.components.errors import UserError
from image_pipeline.components.record_files import tfds
from image_pipeline.components.sources.file_pattern import WILD, find_matching
from image_pipeline.components.sources.folder import leads_out
from image_pipeline.components.sources.split_names import find_split
from image_pipeline.components.tables.table_rows import (
    FOLDER_ENDINGS,
    TABLE_ENDINGS,
    TFRECORD,
    ending_of,
)

SPLIT = "{SPLIT}"
Tables = list[tuple[str, str | None]]
"""Paths, and the split that each one's name names."""

_SAVED, _SAVED_SPLITS = "state.json", "dataset_dict.json"  # of `datasets`
_KINDS = {".tfrecord": "TFRecords", ".tar": "a WebDataset", ".arrow": "a table of Arrow files"}
_OF_FOLDERS = (".parquet", ".arrow", ".tfrecord")
_BESIDE = (".md", ".json", ".txt", ".yaml", ".py", "")  # what may lie beside these
_BELOW = "data"


def is_table(images: str) -> bool:
    """Tells whether what is given as images is a table, or several."""
    if images.startswith((TFRECORD, tfds.PREFIX)):
        return True
    if files.is_local(images) and os.path.isdir(images):
        return ending_of(images) in FOLDER_ENDINGS or bool(_list_folder(images.rstrip("/")))
    if ending_of(images) == ".tar":
        return bool(found := find_matching(images)) and is_web_dataset(found[0])
    return ending_of(images) in TABLE_ENDINGS


def name_kind(images: str) -> str:
    """What tables are, in a few words."""
    if images.startswith(tfds.PREFIX):
        return "a TFDS data set"
    folder = images.rstrip("/")
    if os.path.isfile(files.join(folder, paths.MANIFEST)):
        return "a data set that was ingested"
    if os.path.isfile(f"{folder}/{_SAVED}") or os.path.isfile(f"{folder}/{_SAVED_SPLITS}"):
        return "a data set that Hugging Face's datasets saved"
    ending = ending_of(list_tables(images)[0][0])
    return "a TFDS data set" if tfds.is_tfds(folder) else _KINDS.get(ending, "a table")


def folder_of(images: str) -> str:
    """The folder that tables are in, of all of a pattern."""
    if images.startswith(tfds.PREFIX):
        return tfds.find_folder(images)
    images = images.removeprefix(TFRECORD).rstrip("/")
    if files.is_local(images) and os.path.isdir(images) and ending_of(images) not in FOLDER_ENDINGS:
        return images
    if wild := WILD.search(images):
        images = images[: wild.start()]
    return images.rpartition("/")[0] or ("/" if images[:1] == "/" else ".")


def list_tables(images: str) -> Tables:
    """The tables with the split that each one's name names, if several splits are named.

    Raises:
      UserError: if there is none.
    """
    if SPLIT in images:
        return _list_splits(images)
    if images.startswith(tfds.PREFIX):
        return _of_several(list(tfds.list_shards(tfds.find_folder(images))))
    prefix = TFRECORD if images.startswith(TFRECORD) else ""
    images = images.removeprefix(TFRECORD).rstrip("/")
    if files.is_local(images) and os.path.isdir(images) and ending_of(images) not in FOLDER_ENDINGS:
        found = _list_folder(images) or [(path, None) for path in find_matching(f"{images}/*")]
    else:
        found = [(path, find_split(path)) for path in find_matching(images)]
    if not found:
        raise UserError(f"There is no table {images!r}; check --images.")
    return _of_several([(f"{prefix}{path}", split) for path, split in found])


def name_tables(tables: Sequence[str]) -> list[str]:
    """What to call tables in messages: their names, with the folders that tell them apart."""
    bare = [path.removeprefix(TFRECORD) for path in tables]
    names = [path.rpartition("/")[2] for path in bare]
    if len(set(names)) == len(names):
        return names
    common = os.path.commonpath([path.rpartition("/")[0] for path in bare])
    return [path[len(common) :].lstrip("/") for path in bare]


def _of_several(tables: Tables) -> Tables:
    """The tables without their splits, if all are of one: then it says nothing."""
    is_said = len({split for _, split in tables if split is not None}) > 1
    return tables if is_said else [(path, None) for path, _ in tables]


def _list_folder(folder: str) -> Tables:
    """The tables of a folder that is a data set's; none if it is another's."""
    own = files.join(folder, paths.MANIFEST)
    if os.path.isfile(own) and (shards := find_matching(files.join(folder, paths.in_split("*")))):
        return [(path, paths.parse_split(path)) for path in shards]
    if tfds.is_tfds(folder):
        return list(tfds.list_shards(folder))
    if os.path.isfile(f"{folder}/{_SAVED_SPLITS}"):
        splits = json.loads(files.read_file(f"{folder}/{_SAVED_SPLITS}"))["splits"]
        return [(path, s) for s in splits for path in _list_saved(_name_below(folder, s))]
    if os.path.isfile(f"{folder}/{_SAVED}"):
        return [(path, None) for path in _list_saved(folder)]
    found = _list_data(folder) or _list_data(f"{folder}/{_BELOW}")
    return [(path, find_split(path)) for path in found]


def _list_saved(folder: str) -> list[str]:
    state = json.loads(files.read_file(f"{folder}/{_SAVED}"))
    return [_name_below(folder, each["filename"]) for each in state["_data_files"]]


def _name_below(folder: str, name: str) -> str:
    """A file that a data set's own list names."""
    if leads_out(folder, name):
        raise UserError(
            f"The data set {folder!r} names {name!r}, which leads out of it; save it again, or "
            "give that file itself."
        )
    return f"{folder}/{name}"


def _list_data(folder: str) -> list[str]:
    """The files of a folder that has tables only, and what describes them."""
    found = []
    try:
        for entry in os.scandir(folder):
            if entry.name.startswith("."):
                continue
            ending = ending_of(entry.name)
            if entry.is_dir() or ending not in (*_OF_FOLDERS, *_BESIDE):
                return []
            found += [entry.path] * (ending in _OF_FOLDERS)
    except OSError:
        return []
    return sorted(found)


@functools.cache
def _pattern(path: str) -> re.Pattern[str]:
    before, _, after = path.partition(SPLIT)
    return re.compile(f"{re.escape(before)}(\\w+){re.escape(after)}")


def _list_splits(path: str) -> Tables:
    """The tables of a pattern with `{SPLIT}`."""
    before, _, after = path.partition(SPLIT)
    if "/" in after or SPLIT in after:
        raise UserError(f"{SPLIT} must be once in the name of a table, got {path!r}.")
    if files.is_local(path):
        found = glob.glob(f"{glob.escape(before)}*{glob.escape(after)}")
    else:
        folder, _, name = path.rpartition("/")
        found = files.list_files(folder, name.replace(SPLIT, "*"))
    named: Tables = [
        (each, match[1]) for each in sorted(found) if (match := _pattern(path).fullmatch(each))
    ]
    if not named:
        raise UserError(f"No table is called {path!r} with a split's name for {SPLIT}.")
    return named
