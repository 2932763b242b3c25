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


def lying_shapes(root: pathlib.Path) -> None:
    with h5py.File(root / "rows_1e12.h5", "w") as file:
        file.create_dataset("X", (10**12, 8, 8, 3), "u1", chunks=(1000, 8, 8, 3))
        file.create_dataset("y", (10**12,), "u1", chunks=(10**6,))
    with h5py.File(root / "huge_chunk.h5", "w") as file:
        file.create_dataset(
            "X", (4, 20000, 20000, 3), "u1", chunks=(2, 20000, 20000, 3), compression="gzip"
        )
        file.create_dataset("y", data=[0, 1, 0, 1])
    np.savez_compressed(root / "bomb.npz", X=np.zeros((2, 16000, 16000, 3), "u1"), y=[0, 1])
    for name, shape, chunks in (
        ("rows_1e12.zarr", (10**12, 8, 8, 3), (1000, 8, 8, 3)),
        ("huge_chunk.zarr", (4, 10**5, 10**5, 3), (4, 10**5, 10**5, 3)),
    ):
        group = zarr.open_group(str(root / name), mode="w")
        group.create_dataset("X", shape=shape, chunks=chunks, dtype="u1")
        group.create_dataset("y", shape=shape[:1], chunks=(10**6,), dtype="u1")


def lying_chunks(root: pathlib.Path) -> None:
    pixels = np.zeros((4, 16, 16, 3), np.uint8)
    bomb = zlib.compress(bytes(2**30), 9)
    with h5py.File(root / "unpacks.h5", "w") as file:
        file["X"] = pixels
        settings = {"maxshape": (None,), "chunks": (10_000,), "compression": "gzip"}
        labels = file.create_dataset("y", (4,), h5py.enum_dtype({"a": 0, "b": 1}, "u1"), **settings)
        labels.id.write_direct_chunk((0,), bomb)
    with h5py.File(root / "deep.h5", "w") as file:
        group = file
        for _ in range(2000):
            group = group.create_group("g")
    with h5py.File(root / "wide_labels.h5", "w") as file:
        file["X"] = pixels
        file.create_dataset("y", (4, 10**9), "u1", chunks=(1, 10**6))
    header = {"descr": "|u1", "fortran_order": False, "shape": (4, 2**32, 2**32)}
    with open(root / "sides.npy", "wb") as array:
        np.lib.format.write_array_header_1_0(array, header)
    for name, data, stated in (
        ("unpacks.zarr", bomb, {"compressor": {"id": "zlib", "level": 1}}),
        ("runs.zarr", b"cos\nabort\n(tR.", {"filters": [{"id": "pickle", "protocol": 5}]}),
    ):
        group = zarr.open_group(str(root / name), mode="w")
        group.create_dataset("X", data=pixels, chunks=(1, 16, 16, 3), compressor=None)
        metadata = root / name / "X" / ".zarray"
        metadata.write_text(json.dumps(json.loads(metadata.read_text()) | stated))
        for row in range(4):
            (root / name / "X" / f"{row}.0.0.0").write_bytes(data)


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


def files_of_others(root: pathlib.Path) -> None:
    (root / "outside").mkdir(exist_ok=True)
    (root / "outside" / "secret.txt").write_text("TOP-SECRET-KEY\n" * 20)
    folder_of_pictures(root / "table")
    secret = (root / "outside" / "secret.txt").resolve()
    rows = [f"cat/{n}.jpg,cat" for n in range(8)] + [f"dog/{n}.jpg,dog" for n in range(8)]
    (root / "table" / "list.csv").write_text(
        "\n".join(["path,label", *rows, f"{secret},cat", "../outside/secret.txt,dog", ""])
    )
    pixels = np.zeros((4, 16, 16, 3), np.uint8) + np.arange(4, dtype=np.uint8)[:, None, None, None]
    group = zarr.open_group(str(root / "linked.zarr"), mode="w")
    group.create_dataset("X", data=pixels, chunks=(1, 16, 16, 3), compressor=None)
    group.create_dataset("y", data=[0, 1, 0, 1], compressor=None)
    chunk = root / "linked.zarr" / "X" / "3.0.0.0"
    (root / "outside" / "768.bin").write_bytes(b"SECRET--" * 96)
    chunk.unlink(missing_ok=True)
    chunk.symlink_to((root / "outside" / "768.bin").resolve())


def configurations(root: pathlib.Path) -> None:
    (root / "twice.yaml").write_text(
        "ingest:\n  leave_out: [cat/0.jpg]\n  stratify: true\nview: {height_px: 32, width_px: 32}\n"
        "ingest:\n  splits: {train: 0.6, eval: 0.4}\n"
    )
    (root / "deep.yaml").write_text("ingest: " + "[" * 50000 + "]" * 50000 + "\n")
    (root / "long_number.yaml").write_text("ingest: {seed: " + "9" * 5000 + "}\n")
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [
        f"{new}: &{new} [{','.join(['*' + old] * 9)}]"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    (root / "aliases.yaml").write_text("\n".join([*lines, "ingest:", "  leave_out: *i", ""]))


def tables(root: pathlib.Path) -> None:
    folder_of_pictures(root / "tables")
    paths = [f"{c}/{n}.jpg" for c in ("cat", "dog") for n in range(8)]
    columns = ",".join(f"c{n}" for n in range(100_000))
    cells = ",".join("1" * 100_000)
    (root / "tables" / "wide.csv").write_text(
        f"path,label,{columns}\n" + "".join(f"{p},{p[:3]},{cells}\n" for p in paths[:4])
    )
    polygon = json.dumps([[n % 48, n % 40] for n in range(30_000)]).replace('"', "'")
    (root / "tables" / "polygons.csv").write_text(
        "path,label,polygon\n" + "".join(f'{p},{p[:3]},"{polygon}"\n' for p in paths)
    )
    (root / "tables" / "one_url.csv").write_text(
        "path,label\n" + "".join(f"{p},{p[:3]}\n" for p in paths) + "http://localhost:9/x.jpg,cat\n"
    )
    (root / "tables" / "key_twice.jsonl").write_text(
        "".join(f'{{"path": "{p}", "label": "a", "label": "{p[:3]}"}}\n' for p in paths)
    )


def modules(root: pathlib.Path) -> None:
    """A folder as it comes out of an archive: images, with Python files beside them."""
    folder_of_pictures(root / "code" / "photos")
    for name in ("org", "numexpr", "lz4", "jax", "snappy"):
        (root / "code" / f"{name}.py").write_text('print("CODE OF THIS FOLDER RAN")\n')
    (root / "shadow" / "brotli").mkdir(parents=True, exist_ok=True)
    folder_of_pictures(root / "shadow" / "photos")


def write_inputs(target: pathlib.Path) -> None:
    """Writes all of them into a folder: 40 MB in 200 files."""
    folder_of_pictures(target / "good")
    folder_of_pictures(target / "scans")
    scan_bomb(target / "scans" / "cat" / "bomb.jpg", side=2048, scans=5000)
    for size in (4, 64):
        record_of_zeros(target / f"zeros_{size}MB.tfrecord.gz", size)
    record_of_numbers(target / "numbers_64MB.tfrecord.gz", 64)
    lying_shapes(target)
    lying_chunks(target)
    many_parts(target / "many")
    files_of_others(target)
    configurations(target)
    tables(target)
    modules(target)
