"""Writes a rival's own file format from the stored bytes, by the rival's own writer.

    python -m rivals.pack FORMAT DATA_DIR

Every format gets the JPEG bytes and the class of every record, unchanged.
"""

import json
import pathlib
import sys
from collections.abc import Iterator

import numpy as np

from rivals import protocol

_SHARDS = 8


def read_stored(data_dir: pathlib.Path) -> Iterator[tuple[bytes, int]]:
    """Every record's bytes and class, in the order in which they are stored."""
    payload = np.memmap(data_dir / "payload.bin", np.uint8, "r")
    for offset, length, _, _, label in np.load(data_dir / "records.npy").tolist():
        yield payload[offset : offset + length].tobytes(), label


def write_webdataset(data_dir: pathlib.Path, target: pathlib.Path) -> None:
    """Tar files, as https://github.com/webdataset/webdataset writes them."""
    import webdataset

    records = list(read_stored(data_dir))
    each = -(-len(records) // _SHARDS)
    with webdataset.ShardWriter(f"{target}/%03d.tar", maxcount=each, verbose=0) as writer:
        for number, (stored, label) in enumerate(records):
            writer.write({"__key__": f"{number:08d}", "jpg": stored, "cls": label})


def write_streaming(data_dir: pathlib.Path, target: pathlib.Path) -> None:
    """MDS shards, as https://docs.mosaicml.com/projects/streaming writes them."""
    from streaming import MDSWriter

    columns = {"image": "bytes", "label": "int"}
    with MDSWriter(out=str(target / "mds"), columns=columns, size_limit="16mb") as writer:
        for stored, label in read_stored(data_dir):
            writer.write({"image": stored, "label": label})


def write_litdata(data_dir: pathlib.Path, target: pathlib.Path) -> None:
    """Chunks, by the writer behind `litdata.optimize`: https://github.com/Lightning-AI/litData."""
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(target), chunk_bytes=16_000_000)
    for number, (stored, label) in enumerate(read_stored(data_dir)):
        writer[number] = {"image": stored, "label": label}
    writer.done()
    writer.merge()


def write_array_record(data_dir: pathlib.Path, target: pathlib.Path) -> None:
    """ArrayRecord files for random access: https://github.com/google/array_record."""
    from array_record.python.array_record_module import ArrayRecordWriter

    records = list(read_stored(data_dir))
    for shard in range(_SHARDS):
        writer = ArrayRecordWriter(f"{target}/{shard}.array_record", "group_size:1")
        for stored, label in records[shard::_SHARDS]:
            writer.write(label.to_bytes(4, "little") + stored)
        writer.close()


FORMATS = {
    "webdataset": write_webdataset,
    "streaming": write_streaming,
    "litdata": write_litdata,
    "array_record": write_array_record,
}


def main() -> None:
    """Writes one format; a file `packed` says that it is whole."""
    name, data_dir = sys.argv[1], pathlib.Path(sys.argv[2])
    if json.loads((data_dir / "meta.json").read_text())["format"] != "jpeg":
        return
    target = protocol.packed_dir(data_dir, name)
    target.mkdir(exist_ok=True)
    FORMATS[name](data_dir, target)
    (target / "packed").touch()


if __name__ == "__main__":
    main()
