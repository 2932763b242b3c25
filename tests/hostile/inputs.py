"""Writes small hostile inputs, each one of a kind: `write_inputs(folder)`."""

import gzip
import io
import json
import pathlib
import struct
import zlib
from collections.abc import Callable

import google_crc32c
import h5py
import numpy as np
import zarr
from PIL import Image


def folder_of_pictures(root: pathlib.Path) -> None:
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(8):
            colour = (number * 29, 90 + 80 * (name == "dog"), 255 - number * 17)
            Image.new("RGB", (48, 40), colour).save(root / name / f"{number}.jpg")


def scan_bomb(path: pathlib.Path, side: int, scans: int) -> None:
    """A progressive JPEG whose every scan has 16 bytes and costs a pass over all blocks."""
    buffer = io.BytesIO()
    Image.new("L", (side, side)).save(buffer, "jpeg", progressive=True)
    data = buffer.getvalue()
    start, end = data.rfind(b"\xff\xda"), data.rfind(b"\xff\xd9")
    path.write_bytes(data[:end] + data[start:end] * scans + data[end:])


def record_of_zeros(path: pathlib.Path, megabytes: int) -> None:
    """A gzipped TFRecord file of one example whose bytes feature is all zeros."""
    write_example(path, lambda field: field(1, field(1, bytes(megabytes << 20))))


def record_of_numbers(path: pathlib.Path, megabytes: int) -> None:
    """A gzipped TFRecord file of one example whose numbers are a byte each."""
    write_example(path, lambda field: field(3, field(1, b"\1" * (megabytes << 20))))


def write_example(path: pathlib.Path, make_value: Callable[..., bytes]) -> None:
    """Writes a gzipped TFRecord file of one example with one feature, `image`."""

    def field(number: int, data: bytes) -> bytes:
        size, out = len(data), bytearray([number << 3 | 2])
        while size > 127:
            out.append(size & 127 | 128)
            size >>= 7
        out.append(size)
        return bytes(out) + data

    entry = field(1, b"image") + field(2, make_value(field))
    example = field(1, field(1, entry))

    def masked(data: bytes) -> bytes:
        crc = google_crc32c.value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(example))
    with gzip.open(path, "wb", 6) as file:
        file.write(length + masked(length) + example + masked(example))


def lying_arrays(root: pathlib.Path) -> None:
    """Arrays of very many rows, in huge chunks, or in chunks that unpack to a gigabyte."""
    with h5py.File(root / "rows_1e12.h5", "w") as file:
        file.create_dataset("X", (10**12, 8, 8, 3), "u1", chunks=(1000, 8, 8, 3))
        file.create_dataset("y", (10**12,), "u1", chunks=(10**6,))
    with h5py.File(root / "huge_chunk.h5", "w") as file:
        file.create_dataset(
            "X", (4, 20000, 20000, 3), "u1", chunks=(2, 20000, 20000, 3), compression="gzip"
        )
        file.create_dataset("y", data=[0, 1, 0, 1])
    np.savez_compressed(root / "bomb.npz", X=np.zeros((2, 16000, 16000, 3), "u1"), y=[0, 1])
    pixels = np.zeros((4, 16, 16, 3), np.uint8)
    bomb = zlib.compress(bytes(2**30), 9)
    with h5py.File(root / "unpacks.h5", "w") as file:
        file["X"] = pixels
        settings = {"maxshape": (None,), "chunks": (10_000,), "compression": "gzip"}
        labels = file.create_dataset("y", (4,), h5py.enum_dtype({"a": 0, "b": 1}, "u1"), **settings)
        labels.id.write_direct_chunk((0,), bomb)
    group = zarr.open_group(str(root / "unpacks.zarr"), mode="w")
    group.create_dataset("X", data=pixels, chunks=(1, 16, 16, 3), compressor=None)
    metadata = root / "unpacks.zarr" / "X" / ".zarray"
    stated = json.loads(metadata.read_text()) | {"compressor": {"id": "zlib", "level": 1}}
    metadata.write_text(json.dumps(stated))
    for row in range(4):
        (root / "unpacks.zarr" / "X" / f"{row}.0.0.0").write_bytes(bomb)


def many_parts(root: pathlib.Path) -> None:
    """Images of very many segments, chunks, blocks and directories."""

    def save(kind: str) -> bytes:
        file = io.BytesIO()
        Image.new("L", (8, 8)).save(file, kind)
        return file.getvalue()

    folder_of_pictures(root)
    jpeg, png, gif, tiff = map(save, ("jpeg", "png", "gif", "tiff"))
    (root / "cat" / "segments.jpg").write_bytes(jpeg[:2] + b"\xff\xfe\0\x02" * 10**6 + jpeg[2:])
    at = png.index(b"IDAT") - 4
    time = b"\0\0\0\0tIME" + struct.pack(">I", zlib.crc32(b"tIME"))
    (root / "cat" / "chunks.png").write_bytes(png[:at] + time * 10**6 + png[at:])
    comments = b"\x21\xfe" + b"\1a" * 2 * 10**6 + b"\0"
    (root / "cat" / "blocks.gif").write_bytes(gif[:-1] + comments + gif[-1:])
    (start,) = struct.unpack_from("<I", tiff, 4)
    (count,) = struct.unpack_from("<H", tiff, start)
    end = len(tiff) + len(tiff) % 2
    directory = tiff[start : start + 2 + 12 * count]
    size = len(directory) + 4
    chain = [directory + struct.pack("<I", end + n * size) for n in range(1, 30_000)]
    whole = bytearray(tiff.ljust(end, b"\0") + b"".join(chain) + directory + bytes(4))
    struct.pack_into("<I", whole, start + len(directory), end)
    (root / "cat" / "directories.tif").write_bytes(whole)


def many_aliases(path: pathlib.Path) -> None:
    """A configuration of a few lines that stands for 9 ** 9 values."""
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [
        f"{new}: &{new} [{','.join(['*' + old] * 9)}]"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    path.write_text("\n".join([*lines, "ingest:", "  leave_out: *i", ""]))


def tables(root: pathlib.Path) -> None:
    folder_of_pictures(root)
    paths = [f"{c}/{n}.jpg" for c in ("cat", "dog") for n in range(8)]
    columns = ",".join(f"c{n}" for n in range(100_000))
    cells = ",".join("1" * 100_000)
    (root / "wide.csv").write_text(
        f"path,label,{columns}\n" + "".join(f"{p},{p[:3]},{cells}\n" for p in paths[:4])
    )
    polygon = json.dumps([[n % 48, n % 40] for n in range(30_000)]).replace('"', "'")
    (root / "polygons.csv").write_text(
        "path,label,polygon\n" + "".join(f'{p},{p[:3]},"{polygon}"\n' for p in paths)
    )


def write_inputs(target: pathlib.Path) -> None:
    """Writes all of them into a folder."""
    folder_of_pictures(target / "good")
    folder_of_pictures(target / "scans")
    scan_bomb(target / "scans" / "cat" / "bomb.jpg", side=2048, scans=5000)
    record_of_zeros(target / "zeros_64MB.tfrecord.gz", 64)
    record_of_numbers(target / "numbers_64MB.tfrecord.gz", 64)
    lying_arrays(target)
    many_parts(target / "many")
    many_aliases(target / "aliases.yaml")
    tables(target / "tables")
