"""The names in a data set's folder, and how shards' paths select rows of its index.

The names are spelled out here and nowhere else.
"""

import collections
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from image_pipeline.components.errors import UserError

MANIFEST = "manifest.json"
INDEX = "index.parquet"
ROWS = "index.rows"  # the same in rows of one width; data sets of older versions have none
QUARANTINE = "quarantine.jsonl"
QUARANTINED = "quarantine"  # the folder of quarantined files' copies
DUPLICATES = "duplicates.jsonl"
NEAR_DUPLICATES = "near_duplicates.jsonl"  # only with the option near_duplicates
SKIPPED = "skipped.jsonl"  # only if a file was skipped
SOURCES = ".sources"  # what the next ingest may take over; no part of the data set
NEXT = ".next"  # what is to take the place of a data set, until it is whole
GONE = ".gone"  # and what was there, while it does
FORGET = ".forget.json"  # which pictures are to be forgotten, until no file holds them
SOURCE_NOTE = ".source.json"  # which images a data set was made from, for this machine
VERSIONS = ".versions"  # the indices of versions that were replaced, each in a folder of its own
HISTORY = ".versions.json"  # what each version changed, up to the one that is there
WORK = ".work"  # of an ingest by itself, until it has finished
POINTER = "data_set.json"  # in the folder of an artifact whose data set lies elsewhere
OF_SPLIT, _SHARD = "Split-", "data_tfrecord-"  # TFX's and TFRecord's conventions
_VERSION = re.compile(r"(?P<root>.+)@(?P<number>\d{1,9})/?")
_SHARD_PATH = re.compile(rf"(?P<root>.+)/{OF_SPLIT}(?P<split>[^/]+)/{_SHARD}(?P<shard>\d+)-of-\d+")


def in_split(split: str, name: str = "*") -> str:
    """A file's path in a split, below the folder of all splits; `*` matches any."""
    return f"{OF_SPLIT}{split}/{name}"


def is_split(name: str) -> bool:
    """Whether a name in a data set's folder is that of a split's folder."""
    return name.startswith(OF_SPLIT)


def parse_split(path: str) -> str:
    """The split in whose folder a file is."""
    return path.rpartition("/")[0].rpartition("/")[2].removeprefix(OF_SPLIT)


def name_shard(split: str, shard: int, shards: int) -> str:
    """A shard's path below the data set's folder."""
    return in_split(split, f"{_SHARD}{shard:05d}-of-{shards:05d}")


def name_copy(content: str) -> str:
    """The path of a quarantined file's copy, by the SHA-256 of its bytes; `*` matches any."""
    return f"{QUARANTINED}/{content}"


def match_version(name: str) -> re.Match[str] | None:
    """The `root` and `number` in a version's name, such as `data@2`; None if it is not one."""
    return _VERSION.fullmatch(name)


def is_kept(folder: str) -> bool:
    """Whether a folder is that of a version that was replaced, which has no shards."""
    return folder.rstrip("/").rpartition("/")[0].endswith(f"/{VERSIONS}")


def match_path(path: str) -> re.Match[str] | None:
    """The `root`, `split` and `shard` in a path; None if it is not a shard's."""
    return _SHARD_PATH.fullmatch(path)


def parse_path(path: str) -> re.Match[str]:
    """The `root`, `split` and `shard` in a shard's path.

    Raises:
      UserError: if it is not a shard's.
    """
    match = match_path(path)
    if match is None:
        raise UserError(
            f"a shard's path must end in Split-<name>/data_tfrecord-SSSSS-of-NNNNN, got {path!r}; "
            "read other files by input_fn, which makes an index of them."
        )
    return match


def group_by_root(shard_paths: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """The shards by data set, both sorted; a version that was replaced where its data set is."""
    by_root: dict[str, list[str]] = collections.defaultdict(list)
    for path in shard_paths:
        by_root[parse_path(path)["root"]].append(path)
    # By whole paths, `a/.versions/…` would come after `a-b`, which comes after `a`.
    roots = sorted(by_root, key=lambda root: (root.partition(f"/{VERSIONS}/")[0], root))
    return [(root, tuple(sorted(by_root[root]))) for root in roots]


def numbers_by_split(shard_paths: Sequence[str]) -> Mapping[str, Mapping[int, int]]:
    """The position of each path, by the split and the shard number that it names."""
    numbers: dict[str, dict[int, int]] = collections.defaultdict(dict)
    for number, match in enumerate(map(parse_path, shard_paths)):
        numbers[match["split"]][int(match["shard"])] = number
    return numbers


def number_paths(
    split: pa.Array, shard: pa.Array, numbers: Mapping[str, Mapping[int, int]]
) -> np.ndarray:
    """int32 [rows], the number of each row's split and shard; -1 for rows without one."""
    splits = split.dictionary_encode()
    codes, shards = splits.indices.to_numpy(), shard.to_numpy()
    path_number: np.ndarray = np.full(len(codes), -1, np.int32)
    for code, name in enumerate(splits.dictionary.to_pylist()):
        of_shard = np.full(max(*numbers[name], shards.max()) + 1, -1, np.int32)
        of_shard[list(numbers[name])] = list(numbers[name].values())
        path_number = np.where(codes == code, of_shard[shards], path_number)
    return path_number


def order_by_path(path_number: np.ndarray) -> np.ndarray | slice:
    """An index that sorts rows by shard, stably; a slice if they are already sorted."""
    if (path_number[1:] >= path_number[:-1]).all():
        return slice(None)
    # The index has a shard's records in their order, so a stable sort by shard keeps that.
    return np.argsort(path_number, kind="stable")


def check_all_known(counts: np.ndarray, shard_paths: Sequence[str], root: str) -> None:
    """Raises UserError if a path has no row (int [shards]) in the index of its data set."""
    if len(unknown := np.flatnonzero(counts == 0)):
        raise UserError(
            f"the index of {root} must list every shard that is read, but it has no record of "
            f"{shard_paths[unknown[0]]}; run `image-pipeline verify {root}`."
        )
