"""What people call the splits of a data set, in the names of folders and files."""

import re

SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "eval", "evaluation", "dev"), "eval"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""Common names of splits, and the pipeline's own name for each."""

_WORD = re.compile(r"[^\W_]+")
_OF_SHARD = re.compile(r"([^\W\d]\w*?)-\d+-of-\d+\b.*")


def find_split(path: str) -> str | None:
    """The split that a file's name, or else its folder's, names; None if none does.

    Such as `train` of `cifar-train-00000-of-00002.parquet`, and of `Split-train/data_tfrecord`; and
    whatever is before the number of a shard, as `extra` in `extra-00000-of-00002.parquet`.
    """
    folder, _, name = path.rpartition("/")
    for part in (name, folder.rpartition("/")[2]):
        if usual := [word for word in _WORD.findall(part) if word.lower() in SPLIT_NAMES]:
            return usual[-1]
    shard = _OF_SHARD.fullmatch(name)
    return shard[1] if shard else None
