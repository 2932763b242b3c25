"""Formats whose writer is a plain class: a process a core writes its own files, as people do it."""

import json
import multiprocessing
import os
import pathlib
import tarfile
from collections.abc import Callable

from writers.convert import convert, list_photos, name_photo

WritePart = Callable[[str, str, int], None]


def run_pooled(write_part: WritePart, photos: str, target: str) -> None:
    """Runs a part on every core: `write_part(photos, target, part)`."""
    parts = [(photos, target, part) for part in range(cores())]
    with multiprocessing.get_context("fork").Pool(len(parts)) as pool:
        pool.starmap(write_part, parts)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _list_part(photos: str, part: int) -> list[str]:
    return list_photos(photos)[part :: cores()]


def write_webdataset(photos: str, target: str) -> None:
    """Tar files: https://github.com/webdataset/webdataset#creating-a-webdataset."""
    run_pooled(_write_tar, photos, target)


def _write_tar(photos: str, target: str, part: int) -> None:
    import webdataset

    with webdataset.TarWriter(f"{target}/{part}.tar") as writer:
        for path in _list_part(photos, part):
            writer.write({"__key__": name_photo(path), "jpg": convert(path)})


def count_tar(target: str) -> int:
    """JPEGs in all tar files."""
    return sum(
        member.name.endswith(".jpg")
        for path in pathlib.Path(target).rglob("*.tar")
        for member in tarfile.open(path)
    )


def write_streaming(photos: str, target: str) -> None:
    """MDS, in parts that are merged:
    https://docs.mosaicml.com/projects/streaming/en/stable/preparing_datasets/parallel_dataset_conversion.html.
    """
    from streaming.base.util import merge_index

    run_pooled(_write_mds, photos, target)
    merge_index(target, keep_local=True)


def _write_mds(photos: str, target: str, part: int) -> None:
    from streaming import MDSWriter

    columns = {"name": "str", "image": "bytes"}
    with MDSWriter(out=f"{target}/{part}", columns=columns) as writer:
        for path in _list_part(photos, part):
            writer.write({"name": name_photo(path), "image": convert(path)})


def count_streaming(target: str) -> int:
    """Samples, by the index of all shards."""
    index = json.loads(pathlib.Path(target, "index.json").read_text())
    return sum(shard["samples"] for shard in index["shards"])


def write_array_record(photos: str, target: str) -> None:
    """ArrayRecord: https://github.com/google/array_record."""
    run_pooled(_write_array_record, photos, target)


def _write_array_record(photos: str, target: str, part: int) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(f"{target}/{part}.array_record", "group_size:1")
    for path in _list_part(photos, part):
        writer.write(convert(path))
    writer.close()


def count_array_record(target: str) -> int:
    """Records of all files."""
    from array_record.python.array_record_module import ArrayRecordReader

    paths = pathlib.Path(target).glob("*.array_record")
    return sum(ArrayRecordReader(str(path)).num_records() for path in paths)
