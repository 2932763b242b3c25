"""ICC profiles, written by hand (ICC.1:2022, section 7), and LittleCMS as the judge of them."""

import io
import struct
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from PIL import Image, ImageCms

Primaries = Sequence[Sequence[float]]
# XYZ (D50) of red, green and blue, as in the profiles that Adobe ships.
ADOBE_RGB: Primaries = (
    (0.60974, 0.31111, 0.01947),
    (0.20528, 0.62567, 0.06087),
    (0.14919, 0.06322, 0.74457),
)
PROPHOTO: Primaries = ((0.7977, 0.288, 0.0), (0.13519, 0.71188, 0.0), (0.03131, 0.00009, 0.82491))


def _element(kind: bytes, body: bytes) -> bytes:
    return kind + bytes(4) + body


def curve(*words: int) -> bytes:
    """No word is a straight line, one is 256 times a gamma, more are a table."""
    return _element(b"curv", struct.pack(f">I{len(words)}H", len(words), *words))


def gamma(exponent: float) -> bytes:
    return curve(round(exponent * 256))


def parametric(kind: int, *parameters: float) -> bytes:
    fixed = [round(each * 65536) for each in parameters]
    return _element(b"para", struct.pack(f">HH{len(fixed)}i", kind, 0, *fixed))


def table_curve(exponent: float, black: int = 0, size: int = 100) -> bytes:
    ramp = black + (65535 - black) * np.linspace(0, 1, size) ** exponent
    return curve(*np.round(ramp).astype(int).tolist())


def inverting_tables() -> bytes:
    """A lut16 element that takes RGB to XYZ and has white where black belongs."""
    corners = [(r, g, b) for r in (0, 1) for g in (0, 1) for b in (0, 1)]
    grid = [round(32768 * part * (3 - sum(c)) / 3) for c in corners for part in (0.9642, 1, 0.8249)]
    unit = [65536 * (row == column) for row in range(3) for column in range(3)]
    head = struct.pack(">BBBB9iHH", 3, 3, 2, 0, *unit, 2, 2)
    straight = [0, 65535] * 3
    return _element(b"mft2", head + struct.pack(">36H", *straight, *grid, *straight))


def xyz(values: Sequence[float]) -> bytes:
    return _element(b"XYZ ", struct.pack(">3i", *[round(each * 65536) for each in values]))


def rgb_profile(
    primaries: Primaries, curves: Sequence[bytes], extra: Mapping[bytes, bytes] | None = None
) -> bytes:
    """Writes a display profile of three primaries and three curves."""
    tags = dict(zip((b"rXYZ", b"gXYZ", b"bXYZ"), map(xyz, primaries), strict=True))
    tags |= dict(zip((b"rTRC", b"gTRC", b"bTRC"), curves, strict=True))
    return _write_profile(b"RGB ", {**tags, **(extra or {})})


def gray_profile(tone_curve: bytes) -> bytes:
    return _write_profile(b"GRAY", {b"kTRC": tone_curve})


def _write_profile(color_space: bytes, tags: Mapping[bytes, bytes]) -> bytes:
    name = _element(b"desc", struct.pack(">I", 6) + b"drawn\0" + bytes(78))
    tags = {b"desc": name, b"wtpt": xyz((0.9642, 1.0, 0.8249)), **tags}
    start = 132 + 12 * len(tags)
    directory, body = struct.pack(">I", len(tags)), b""
    for tag, element in tags.items():
        directory += struct.pack(">4sII", tag, start + len(body), len(element))
        body += element + bytes(-len(element) % 4)
    size, version = start + len(body), 0x02100000
    header = struct.pack(">I4sI4s4s4s", size, b"test", version, b"mntr", color_space, b"XYZ ")
    header += bytes(12) + b"acsp" + bytes(28) + struct.pack(">3i", 63190, 65536, 54061)
    return header.ljust(128, b"\0") + directory + body


def littlecms(icc: bytes, mode: str = "RGB") -> Callable[[np.ndarray], np.ndarray]:
    """Returns LittleCMS's transform of uint8 pixels to sRGB."""
    profile = ImageCms.ImageCmsProfile(io.BytesIO(icc))
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
    built = ImageCms.buildTransform(profile, srgb, mode, "RGB", flags=ImageCms.Flags.NOCACHE)
    return lambda pixels: np.asarray(
        ImageCms.applyTransform(Image.fromarray(pixels, mode=mode), built)
    )
