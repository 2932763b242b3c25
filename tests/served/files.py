"""Image files of every kind that can be served, with every way to state orientation and alpha."""

import io
import struct
import zlib

import cv2
import numpy as np
from PIL import Image

HEIGHT, WIDTH = 9, 7


def draw_color(seed: int = 0) -> np.ndarray:
    """Noise: uint8 [HEIGHT, WIDTH, 3]."""
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)


def draw_alpha() -> np.ndarray:
    """Every kind of opacity: uint8 [HEIGHT, WIDTH]."""
    return np.linspace(0, 255, HEIGHT * WIDTH).round().astype(np.uint8).reshape(HEIGHT, WIDTH)


def draw_rgba() -> Image.Image:
    return Image.fromarray(np.dstack([draw_color(), draw_alpha()]), "RGBA")


def draw_palette() -> Image.Image:
    """Four colours, black among them."""
    indices = np.random.default_rng(1).integers(0, 4, (HEIGHT, WIDTH), dtype=np.uint8)
    image = Image.fromarray(indices, "P")
    image.putpalette([10, 20, 30, 200, 100, 50, 0, 0, 0, 255, 255, 255])
    return image


def save(image: Image.Image, image_format: str, **settings) -> bytes:
    file = io.BytesIO()
    image.save(file, image_format, **settings)
    return file.getvalue()


def make_exif(orientation: int, endian: str = "<", kind: int = 3) -> bytes:
    """A directory of two entries, with the TIFF header that EXIF begins with."""
    head = (b"II*\0" if endian == "<" else b"MM\0*") + struct.pack(endian + "I", 8)
    value = struct.pack(endian + {3: "H2x", 6: "b3x"}.get(kind, "I"), orientation)
    entries = struct.pack(endian + "HHII", 0x010F, 2, 2, 0)
    entries += struct.pack(endian + "HHI", 0x0112, kind, 1) + value
    return head + struct.pack(endian + "H", 2) + entries + struct.pack(endian + "I", 0)


def encode_deep_png(channels: int) -> bytes:
    """A PNG of 16 bits: gray, RGB or RGBA noise."""
    shape = (HEIGHT, WIDTH, channels)
    pixels = np.random.default_rng(channels).integers(0, 1 << 16, shape, dtype=np.uint16)
    pixels[0, 0, 3:] = 0  # one pixel that is not seen at all
    return cv2.imencode(".png", pixels)[1].tobytes()


def encode_small_png(bits: int) -> bytes:
    """A gray PNG of 1, 2 or 4 bits a pixel, eight pixels wide."""
    rows = np.random.default_rng(bits).integers(0, 256, (HEIGHT, bits), dtype=np.uint8)
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", 8, HEIGHT, bits, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(make_chunk(*chunk) for chunk in chunks)


def make_chunk(name: bytes, data: bytes) -> bytes:
    """One chunk of a PNG."""
    checksum = struct.pack(">I", zlib.crc32(name + data))
    return struct.pack(">I", len(data)) + name + data + checksum


def opaque_files() -> dict[str, bytes]:
    """Name to a file without transparency, of which decoders leave no choice in the pixels."""
    color, gray = Image.fromarray(draw_color()), Image.fromarray(draw_color()[..., 0])
    return {
        "jpeg": save(color, "JPEG", quality=95),
        "jpeg gray": save(gray, "JPEG"),
        "jpeg progressive": save(color, "JPEG", progressive=True),
        "png": save(color, "PNG"),
        "png gray": save(gray, "PNG"),
        "png palette": save(draw_palette(), "PNG"),
        **{f"png {bits} bits": encode_small_png(bits) for bits in (1, 2, 4)},
        "png 16 bits gray": encode_deep_png(1),
        "png 16 bits": encode_deep_png(3),
        "webp": save(color, "WEBP", quality=80),
        "webp lossless": save(color, "WEBP", lossless=True),
    }


def transparent_files() -> dict[str, bytes]:
    """Name to a file with transparent pixels."""
    gray = Image.fromarray(draw_color()[..., 0])
    gray_alpha = Image.merge("LA", [gray, Image.fromarray(draw_alpha())])
    levels = Image.fromarray(np.repeat(np.asarray(draw_palette())[..., None] * 60, 3, -1))
    return {
        "png rgba": save(draw_rgba(), "PNG"),
        "png gray alpha": save(gray_alpha, "PNG"),
        "png palette tRNS": save(draw_palette(), "PNG", transparency=bytes([0, 128, 255, 60])),
        "png gray tRNS": save(levels.convert("L"), "PNG", transparency=60),
        "png rgb tRNS": save(levels, "PNG", transparency=(60, 60, 60)),
        "png 16 bits rgba": encode_deep_png(4),
        "webp alpha": save(draw_rgba(), "WEBP", quality=80),
        "webp alpha lossless": save(draw_rgba(), "WEBP", lossless=True, exact=True),
    }


def state_orientation(file: bytes, exif: bytes) -> bytes:
    """Puts EXIF into a JPEG, PNG or WebP file."""
    if file.startswith(b"\xff\xd8"):
        segment = b"Exif\0\0" + exif
        comment = b"\xff\xff\xfe\0\4hi"  # behind a fill byte
        return (
            file[:2] + comment + b"\xff\xe1" + struct.pack(">H", 2 + len(segment)) + segment
        ) + file[2:]
    if file.startswith(b"\x89PNG"):
        return file[:33] + make_chunk(b"eXIf", exif) + file[33:]
    return _state_in_webp(file, exif)


def _state_in_webp(file: bytes, exif: bytes) -> bytes:
    if file[12:16] == b"VP8X":
        body = file[12:20] + bytes([file[20] | 8]) + file[21:]
    else:
        sides = struct.pack("<I", WIDTH - 1)[:3] + struct.pack("<I", HEIGHT - 1)[:3]
        body = b"VP8X" + struct.pack("<IB3x", 10, 8) + sides + file[12:]
    body += b"EXIF" + struct.pack("<I", len(exif)) + exif + b"\0" * (len(exif) % 2)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body
