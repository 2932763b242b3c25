"""Orientation, colour profile, alpha and channels: decoded pixels to upright sRGB."""

import functools
import io
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from PIL import ExifTags, Image, ImageCms

from image_pipeline.components.images.bad_image import BadImage, call_decoder

# EXIF 2.32, tag 0x0112: how to turn the stored pixels upright.
_ORIENTATION_STEPS = {
    2: (1, None),
    3: (None, cv2.ROTATE_180),
    4: (0, None),
    5: (1, cv2.ROTATE_90_COUNTERCLOCKWISE),
    6: (None, cv2.ROTATE_90_CLOCKWISE),
    7: (1, cv2.ROTATE_90_CLOCKWISE),
    8: (None, cv2.ROTATE_90_COUNTERCLOCKWISE),
}
# Pillow's names for the chunks and segments that hold XMP.
_XMP_KEYS = ("xmp", "XML:com.adobe.xmp")
_XMP_ORIENTATION = re.compile(rb"tiff:Orientation\s*(?:=\s*[\"']|>)\s*([1-8])\b")
# What ImageMagick writes into a PNG's text: a name, a length, then the profile in hexadecimal.
_RAW_KEYS = ("Raw profile type exif", "Raw profile type APP1")
_RAW_PROFILE = re.compile(r"\s*\w+\s+\d+\s+([0-9a-fA-F\s]*)")
# LittleCMS's fixed point (cmsopt.c, cmsS1Fixed14Number): 1.0 is 16384.
_ONE = 1 << 14
# 24 bytes a pixel lie between the steps; this many stay in a core's cache, whatever the image.
_BAND_PIXELS = 1 << 15
_CURVES = (b"rTRC", b"gTRC", b"bTRC")
_MOST_TAGS = 100  # LittleCMS refuses profiles of more (MAX_TABLE_TAG).


def read_orientation(image: Image.Image) -> tuple[int, tuple[str, ...]]:
    """Returns (EXIF orientation, notes); unreadable EXIF is not a reason to lose an image."""
    try:
        if image.format == "TIFF":
            tags = image.tag_v2  # type: ignore[attr-defined]
        elif "exif" in image.info:
            tags = Image.Exif()
            call_decoder(tags.load, image.info["exif"])
        else:
            return 1, ()
        orientation = call_decoder(tags.get, ExifTags.Base.Orientation, 1)
    except BadImage:
        return 1, ("exif_broken",)
    if isinstance(orientation, int) and 1 <= orientation <= 8:
        return orientation, ()
    return 1, ("exif_broken",)


def note_other_orientation(info: dict[Any, Any]) -> tuple[str, ...]:
    """Returns notes on orientations other than 1 that are stated elsewhere than in EXIF.

    They are not applied: browsers and TensorFlow's decoders do not look there, so whoever labelled
    the image saw it as it is stored, and so will a served model. Pillow, ImageMagick and Lightroom
    do look.

    Returns:
      `raw_exif_orientation:<n>` and `xmp_orientation:<n>`, each where the file has it.
    """
    found = {"raw_exif": _read_raw_exif(info), "xmp": _read_xmp(info)}
    return tuple(f"{name}_orientation:{n}" for name, n in found.items() if 2 <= n <= 8)


def _read_xmp(info: dict[Any, Any]) -> int:
    for key in _XMP_KEYS:
        text = info.get(key)
        text = text.encode() if isinstance(text, str) else text
        # A TIFF's tag may be a number, of as many bytes as it says.
        found = isinstance(text, bytes) and _XMP_ORIENTATION.search(text)
        if found:
            return int(found[1])
    return 1


def _read_raw_exif(info: dict[Any, Any]) -> int:
    for key in _RAW_KEYS:
        found = _RAW_PROFILE.match(str(info.get(key, "")))
        if not found:
            continue
        digits = "".join(found[1].split())
        exif = Image.Exif()
        try:
            call_decoder(exif.load, bytes.fromhex(digits[: len(digits) // 2 * 2]))
            orientation = call_decoder(exif.get, ExifTags.Base.Orientation, 1)
        except BadImage:
            continue
        if isinstance(orientation, int):
            return orientation
    return 1


def orient(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Turns [height, width, ...] upright; sides swap for orientations 5 to 8."""
    flip_axis, rotation = _ORIENTATION_STEPS.get(orientation, (None, None))
    if flip_axis is not None:
        pixels = cv2.flip(pixels, flip_axis)
    return pixels if rotation is None else cv2.rotate(pixels, rotation)


def convert_to_srgb(pixels: np.ndarray, icc: bytes | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Converts from the embedded colour profile; a broken or mismatched one is ignored.

    Args:
      pixels: uint8 gray [height, width], RGB [height, width, 3] or CMYK [height, width, 4].
      icc: the file's ICC profile, if it has one.

    Returns:
      (uint8 gray or RGB, notes).
    """
    mode = "L" if pixels.ndim == 2 else ("RGB", "CMYK")[pixels.shape[2] - 3]
    notes: tuple[str, ...] = ()
    if icc:
        try:
            transform = _srgb_transform(icc, mode)
            if transform is not None:
                return transform(pixels), ("icc",)
        except BadImage:
            notes = ("icc_broken",)
    if mode == "CMYK":
        return np.asarray(Image.fromarray(pixels, mode=mode).convert("RGB")), notes
    return pixels, notes


# A data set has few profiles, and building a transform costs 7 ms, three times a photo's decoding.
@functools.lru_cache(maxsize=64)
def _srgb_transform(icc: bytes, mode: str) -> Callable[[np.ndarray], np.ndarray] | None:
    """Returns the perceptual transform from a profile to sRGB, or None if it is sRGB already.

    Where LittleCMS gives up, here or in the transform, it is a `BadImage`.

    sRGB is recognised by the profile's name: half of all profiles are sRGB, and converting those
    would change almost no pixel. The transform keeps no state between pixels, so threads may share
    it. LittleCMS defines the result, at 26 ns a pixel; a faster way is taken where it gives the
    same: gray has only 256 levels to convert, and most RGB profiles are a matrix.
    """
    profile = call_decoder(ImageCms.ImageCmsProfile, io.BytesIO(icc))
    name = call_decoder(ImageCms.getProfileDescription, profile).lower()
    if "srgb" in name and "linear" not in name:
        return None
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
    built = call_decoder(
        ImageCms.buildTransform, profile, srgb, mode, "RGB", flags=ImageCms.Flags.NOCACHE
    )

    def convert(pixels: np.ndarray) -> np.ndarray:
        image = Image.fromarray(pixels, mode=mode)
        return np.asarray(call_decoder(ImageCms.applyTransform, image, built))

    if mode == "L":
        table = convert(np.arange(256, dtype=np.uint8)[:, None])
        return lambda pixels: cv2.LUT(cv2.cvtColor(pixels, cv2.COLOR_GRAY2RGB), table)
    return (build_matrix_transform(icc, convert) if mode == "RGB" else None) or convert


def composite(color: np.ndarray, alpha: np.ndarray, background: tuple[int, int, int]) -> np.ndarray:
    """Composites gray or RGB over one RGB colour.

    Args:
      color: uint8 or uint16 [height, width(, 3)].
      alpha: of the same type, [height, width].
      background: 0 to 255.

    Returns:
      [height, width, 3] of the same type, rounded to the nearest level.
    """
    top = int(np.iinfo(color.dtype).max)
    wide: Any = np.uint16 if top == 255 else np.uint32  # holds top ** 2 + top // 2
    rgb = convert_channels(color, gray=False).astype(wide)
    opacity = alpha[:, :, None].astype(wide)
    behind = np.asarray(background, wide) * wide(top // 255) * (top - opacity)
    return ((rgb * opacity + behind + top // 2) // top).astype(color.dtype)


def convert_channels(pixels: np.ndarray, gray: bool) -> np.ndarray:
    """Converts gray to RGB by repetition, RGB to gray by luma (ITU-R BT.601), or does nothing."""
    if gray and pixels.ndim == 3:
        return cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    if not gray and pixels.ndim == 2:
        return cv2.cvtColor(pixels, cv2.COLOR_GRAY2RGB)
    return pixels


class _OtherProfile(Exception):
    """The profile is not three curves and a matrix, or one of them is cut off."""


@dataclass(frozen=True, eq=False)
class MatrixTransform:
    """From one profile's uint8 RGB to sRGB; stateless, so threads may share it.

    Nearly all profiles in photos are three curves and a matrix (ICC.1:2022, 8.3.3): a curve per
    channel makes the levels linear, the primaries' XYZ are the matrix's columns. LittleCMS computes
    them in whole numbers of 14 bits, a pixel at a time; the same numbers are computed here, by
    hand, since OpenCV takes a sixth of the time. A transform is handed out only if it equals
    LittleCMS in every one of 17,408 colours; those of 16 profiles found in photos did so in all
    2**24.
    """

    linear: np.ndarray
    """Level to light: float64 [256, 1, 3], or [256, 1, 1] for three equal curves; whole numbers
    of which `_ONE` is white."""
    matrix: np.ndarray
    """The profile's linear RGB to that of sRGB: float64 [3, 4], whole multiples of 1 / `_ONE`.
    The last column rounds halves up. Sums of products stay below 2**53, so they are exact."""
    encoded: np.ndarray
    """Light to level: uint8 [65536]; what exceeds white is 255."""

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Converts uint8 [height, width, 3] to the same shape in sRGB."""
        converted = np.empty(pixels.shape, np.uint8)
        rows = max(1, _BAND_PIXELS // pixels.shape[1])
        for top in range(0, len(pixels), rows):
            band = slice(top, top + rows)
            light = cv2.transform(cv2.LUT(pixels[band], self.linear), self.matrix)
            # Rounds, and clips what is below 0.
            indices = cv2.add(light, 0, dtype=cv2.CV_16U)  # type: ignore[call-overload]
            cv2.LUT(indices, self.encoded, converted[band])
        return converted


def build_matrix_transform(
    icc: bytes, reference: Callable[[np.ndarray], np.ndarray]
) -> MatrixTransform | None:
    """Builds the fast transform of an RGB profile, if it has one.

    Args:
      icc: the profile's bytes.
      reference: LittleCMS's own transform to sRGB of uint8 [height, width, 3].

    Returns:
      The transform, or None where it is of another kind, or differs from `reference` in any of the
      colours compared: a profile with tables besides its matrix, or a black that is not zero.
    """
    try:
        transform = _derive_transform(icc)
    except _OtherProfile:
        return None
    colors = _compared_colors()
    return transform if np.array_equal(transform(colors), reference(colors)) else None


def _derive_transform(icc: bytes) -> MatrixTransform:
    """Computes the tables as LittleCMS does (cmsopt.c, OptimizeMatrixShaper).

    Raises:
      _OtherProfile: the profile lacks a curve or primary, or has an odd one.
    """
    tags = _read_tags(icc)
    missing = [name for name in _CURVES if name not in tags]
    if missing:
        raise _OtherProfile(f"no {missing}")
    levels = (np.arange(256) / 255).astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):  # An absurd curve overflows, and then fails the comparison.
        curves = [_evaluate_curve(tags[name], levels) for name in _CURVES]
        linear = _to_fixed(np.stack(curves, axis=-1).astype(np.float32))
    if (linear == linear[:, :1]).all():
        linear = linear[:, :1]  # One table for all channels is looked up in half the time.
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
    to_xyz = _read_primaries(ImageCms.ImageCmsProfile(io.BytesIO(icc)))
    matrix = _to_fixed(np.linalg.inv(_read_primaries(srgb)) @ to_xyz) / _ONE
    round_half_up = np.full((3, 1), 0.5 / _ONE)
    return MatrixTransform(
        linear=np.ascontiguousarray(linear[:, None]),
        matrix=np.hstack([matrix, round_half_up]),
        encoded=_srgb_levels(),
    )


def _to_fixed(values: np.ndarray) -> np.ndarray:
    """Rounds to whole numbers, halves up, of which `_ONE` stands for 1."""
    return np.floor(values.astype(np.float64) * _ONE + 0.5)


def _read_tags(icc: bytes) -> dict[bytes, bytes]:
    """Reads the tag table (ICC.1:2022, 7.3): four-letter names to the elements' bytes."""
    (count,) = _unpack(icc, ">I", 128)
    entries = [_unpack(icc, ">4sII", 132 + 12 * n) for n in range(min(count, _MOST_TAGS))]
    return {name: icc[offset : offset + length] for name, offset, length in entries}


def _unpack(data: bytes, layout: str, offset: int) -> tuple:
    if len(data) < offset + struct.calcsize(layout):
        raise _OtherProfile(f"{len(data)} bytes end before {layout!r} at {offset}")
    return struct.unpack_from(layout, data, offset)


def _unpack_array(data: bytes, kind: str, count: int, offset: int) -> np.ndarray:
    if len(data) < offset + count * np.dtype(kind).itemsize:
        raise _OtherProfile(f"{len(data)} bytes end before {count} numbers at {offset}")
    return np.frombuffer(data, kind, count, offset)


def _read_primaries(profile: ImageCms.ImageCmsProfile) -> np.ndarray:
    """Returns linear RGB to XYZ (D50): float64 [3, 3]."""
    core = profile.profile
    columns = (core.red_colorant, core.green_colorant, core.blue_colorant)
    if None in columns:
        raise _OtherProfile(f"a matrix needs three primaries, got {columns}")
    return np.array([xyz for xyz, _ in columns]).T  # type: ignore[misc]


def _evaluate_curve(element: bytes, levels: np.ndarray) -> np.ndarray:
    """Evaluates a tone curve (ICC.1:2022, 10.6 and 10.18) at float64 levels from 0 to 1."""
    if element[:4] == b"para":
        return _evaluate_parametric(element, levels)
    (count,) = _unpack(element, ">I", 8)
    if element[:4] != b"curv":
        raise _OtherProfile(f"a curve is 'curv' or 'para', got {element[:4]!r}")
    if count == 0:
        return levels
    if count == 1:
        return levels ** (_unpack(element, ">H", 12)[0] / 256)
    # A table of 16 bits, interpolated in whole numbers as LittleCMS does (cmsintrp.c, LinLerp1D).
    table = _unpack_array(element, ">u2", count, 12).astype(np.int64)
    position = (len(table) - 1) * np.floor(levels * 65535 + 0.5).astype(np.int64)
    position += (position + 0x7FFF) // 0xFFFF  # from 65535ths to 65536ths
    cell, rest = position >> 16, position & 0xFFFF
    low, high = table[cell], table[np.minimum(cell + 1, len(table) - 1)]
    return (low + (((high - low) * rest + 0x8000) >> 16)) / 65535


# How many parameters the five kinds of parametric curve have (ICC.1:2022, table 68).
_PARAMETERS = {0: 1, 1: 3, 2: 4, 3: 5, 4: 7}


def _evaluate_parametric(element: bytes, levels: np.ndarray) -> np.ndarray:
    """Evaluates (a * level + b) ** gamma + e from `d` upwards and c * level + f below."""
    (kind,) = _unpack(element, ">H", 8)
    if kind not in _PARAMETERS:
        raise _OtherProfile(f"a parametric curve of kind {kind}")
    given = _unpack_array(element, ">i4", _PARAMETERS[kind], 12) / 65536
    gamma, a, b, c, d, e, f = np.concatenate([given, np.zeros(7 - len(given))])
    if kind == 0:
        a = 1.0
    elif kind in (1, 2):  # No straight part: constant below the power's zero, `c` is an offset.
        c, e = 0.0, c
    return np.where(levels >= d, np.maximum(a * levels + b, 0) ** gamma + e, c * levels + f)


@functools.cache
def _srgb_levels() -> np.ndarray:
    """Tabulates linear light, `_ONE` for white, to sRGB levels (IEC 61966-2-1).

    Returns:
      uint8 [65536], rounded as LittleCMS rounds: to 16 bits, then to 8.
    """
    light = np.arange(_ONE + 1) / _ONE
    # LittleCMS starts the power where the straight line ends, at level 0.04045.
    is_power = light >= ((0.04045 + 0.055) / 1.055) ** 2.4
    values = np.where(is_power, 1.055 * light ** (1 / 2.4) - 0.055, 12.92 * light)
    words = np.floor(values.astype(np.float32).astype(np.float64) * 65535 + 0.5).astype(np.int64)
    levels = np.full(1 << 16, 255, np.uint8)
    levels[: _ONE + 1] = (words * 65281 + (1 << 23)) >> 24  # cmslut.c, FROM_16_TO_8
    return levels


@functools.cache
def _compared_colors() -> np.ndarray:
    """Returns uint8 [17408, 1, 3]: every level of each channel, every gray, and 16384 scattered."""
    ramp = np.arange(256, dtype=np.uint8)
    ramps = [np.outer(ramp, channels) for channels in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1))]
    # Multiples of 2**24 over the golden ratio (odd, so none repeats) spread over all 2**24 colours.
    scattered = (np.arange(1 << 14, dtype=np.uint32) * 0x9E3779) & 0xFFFFFF
    channels = scattered[:, None] >> np.array([0, 8, 16], np.uint32) & 255
    return np.vstack([*ramps, channels]).astype(np.uint8)[:, None]
