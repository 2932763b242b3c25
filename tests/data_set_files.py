"""Writes the files of existing data sets by hand: TFRecords, Parquet, Arrow, WebDataset."""

import gzip
import io
import struct
import tarfile
import zlib

import pyarrow as pa
import pyarrow.parquet as pq

from image_pipeline.components.dataset import tfrecord

IMAGE_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
PACKINGS = {"": bytes, ".gz": gzip.compress, ".zlib": zlib.compress}


def varint(value):
    value &= (1 << 64) - 1
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def encode_feature(values, packed=True):
    """Of bytes, floats or ints, by the first value; packed, or each number as its own field."""
    first = next(iter(values), b"")
    if isinstance(first, bytes):
        return field(1, b"".join(field(1, value) for value in values))
    number, tag = (2, varint(1 << 3 | 5)) if isinstance(first, float) else (3, varint(1 << 3))
    encode = (lambda v: struct.pack("<f", v)) if isinstance(first, float) else varint
    if packed:
        return field(number, field(1, b"".join(map(encode, values))))
    return field(number, b"".join(tag + encode(value) for value in values))


def encode_example(features, packed=True):
    """A tf.Example of lists, or of one value each, in the order that they have."""
    entries = (
        field(1, name.encode())
        + field(2, encode_feature(value if isinstance(value, list) else [value], packed))
        for name, value in features.items()
    )
    return field(1, b"".join(field(1, entry) for entry in entries))


def write_tfrecord(path, examples):
    """Packed as the ending says, see `PACKINGS`; returns where each record begins if it is not."""
    framed = [tfrecord.frame(e if isinstance(e, bytes) else encode_example(e)) for e in examples]
    packing = PACKINGS.get(path.suffix, bytes)
    path.write_bytes(packing(b"".join(framed)))
    return [sum(map(len, framed[:at])) for at in range(len(framed))]


def make_cell(data, path):
    return {"bytes": data, "path": path}


def make_table(images, metadata=None, **columns):
    """An Arrow table as `datasets` makes it; images are bytes, or pairs of bytes and path."""
    cells = [
        {"bytes": each, "path": None} if isinstance(each, bytes) else each and make_cell(*each)
        for each in images
    ]
    table = pa.table({"image": pa.array(cells, IMAGE_TYPE), **columns})
    return table if metadata is None else table.replace_schema_metadata({"huggingface": metadata})


def write_arrow(path, table, rows=7):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


def write_parquet(path, table, rows=7):
    pq.write_table(table, path, row_group_size=rows)


def write_tar(path, members):
    """Members by name; packed if the name says so."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    data = file.getvalue()
    path.write_bytes(gzip.compress(data) if path.suffix in (".gz", ".tgz") else data)
