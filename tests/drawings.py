"""Draws tiny images with known pixels, and writes them as files."""

import io
import pathlib
from collections.abc import Sequence

import numpy as np
from PIL import Image


def draw(seed: int, height: int = 8, width: int = 10) -> np.ndarray:
    """Pixels that differ from seed to seed: uint8 [height, width, 3]."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def draw_smooth(seed: int, height: int = 144, width: int = 192) -> np.ndarray:
    """A smooth random picture, which has a meaningful perceptual hash: noise has none.

    Returns:
      uint8 [height, width, 3].
    """
    coarse = np.random.default_rng(seed).integers(30, 226, (6, 8, 3), np.uint8)
    image = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(image)


def encode_png(pixels: np.ndarray) -> bytes:
    """A lossless file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def write_folder(
    folder: pathlib.Path, classes: Sequence[str] = ("cat", "dog"), per_class: int = 10
) -> pathlib.Path:
    """Writes `<folder>/<class>/<number>.png`, all different."""
    for code, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(per_class):
            pixels = draw(1000 * code + number)
            (folder / name / f"{number:03d}.png").write_bytes(encode_png(pixels))
    return folder
