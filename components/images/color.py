"""Orientation, colour profile, alpha and channels: decoded pixels to upright sRGB."""

import functools
import io
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from PIL import ExifTags, Image, ImageCms

from image_pipeline.components.images.bad_image import BadImage, call_decoder
from image_pipeline.components.images.matrix_profile import build_matrix_transform

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


def read_orientation(image: Image.Image) -> tuple[int, tuple[str, ...]]:
    """Returns (EXIF orientation, notes); unreadable EXIF is no reason to lose an image."""
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


def orient(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Turns uint8 [height, width, ...] upright; sides swap for orientations 5 to 8."""
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
