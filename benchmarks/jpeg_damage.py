"""What share of damaged JPEGs is refused, noted, or stored as if nothing had happened.

    python benchmarks/jpeg_damage.py --images FOLDER [--photos 200] [--seed 1]

FOLDER holds JPEGs, in any layout. Each is damaged as it is, and re-encoded by Pillow with tables
of its own (optimised, quality 75) and progressively (quality 75). Damage begins at a random byte of
the coded data: zeros up to the end marker, as a download leaves that was interrupted after the file
was given its length; 512 or 4096 zeros, a disk's lost block; 64 random bytes; one flipped bit; and
an end marker in place of the rest. `noted` files are stored, with a note in the index.
"""

import argparse
import collections
import io
import pathlib
import random

from PIL import Image, ImageFile

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.jpeg import read_jpeg_structure
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image

AS_IS = PrepareOptions(resize="none", encoding="raw")
ImageFile.MAXBLOCK = 2**24  # Pillow's buffer for optimised and progressive files.


def main() -> None:
    """Damages every photo in every way, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=pathlib.Path, required=True)
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    paths = sorted(p for p in arguments.images.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    rng = random.Random(arguments.seed)
    counts: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for path in paths[: arguments.photos]:
        for kind, data in encode_kinds(path.read_bytes()).items():
            for damage, damaged in damage_file(data, rng).items():
                counts[damage, kind][judge(damaged)] += 1
    for (damage, kind), found in sorted(counts.items()):
        shares = (f"{outcome} {found[outcome]:4d}" for outcome in ("refused", "noted", "unseen"))
        print(f"{damage:24} {kind:12} {'  '.join(shares)}")


def encode_kinds(data: bytes) -> dict[str, bytes]:
    """Returns the file as it is, and re-encoded in two ways."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    kinds = {"as it is": data}
    for kind in ("optimize", "progressive"):
        file = io.BytesIO()
        image.save(file, "JPEG", quality=75, **{kind: True})
        kinds[kind] = file.getvalue()
    return kinds


def damage_file(data: bytes, rng: random.Random) -> dict[str, bytes]:
    """Returns the file damaged in every way."""
    structure = read_jpeg_structure(data)
    start, end = structure.first_scan + 14, structure.end_offset
    damaged = {}
    at = rng.randrange(start, end - 64)
    damaged["zeros to the end"] = data[:at] + bytes(end - at) + data[end:]
    damaged["end marker"] = data[:at] + data[end:]
    for length in (512, 4096):
        if end - start > length + 64:
            at = rng.randrange(start, end - length - 32)
            damaged[f"{length} zeros"] = data[:at] + bytes(length) + data[at + length :]
    at = rng.randrange(start, end - 64)
    damaged["64 random bytes"] = data[:at] + rng.randbytes(64) + data[at + 64 :]
    flipped = bytes([data[at] ^ 1 << rng.randrange(8)])
    damaged["one bit"] = data[:at] + flipped + data[at + 1 :]
    return damaged


def judge(data: bytes) -> str:
    """Tells what ingest does with the file."""
    try:
        notes = prepare_image(data, AS_IS).notes
    except BadImage:
        return "refused"
    return "noted" if {"extra_bytes", "missing_scans"} & set(notes) else "unseen"


if __name__ == "__main__":
    main()
