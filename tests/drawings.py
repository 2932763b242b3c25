"""Draws tiny images with known pixels, and writes them as files."""

import io
import pathlib
from collections.abc import Mapping, Sequence

import cv2
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


def draw_noisy(height: int = 61, width: int = 83, channels: int = 3) -> np.ndarray:
    """Odd sides, so that the colour of a JPEG is upsampled at its borders too."""
    noise = np.random.default_rng(2).integers(0, 30, (height, width, channels), np.uint8)
    return draw_smooth(4, height, width)[..., :channels] // 2 + noise


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


def draw_texts(folder: pathlib.Path, texts: Mapping[str, str], count: int = 20) -> None:
    """Images of 24 px that show a text somewhere, in the folder of its class."""
    rng = np.random.default_rng(0)
    for name, text in texts.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            image = rng.integers(0, 40, (24, 24), np.uint8)
            (width, _), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 0.6, 2)
            place = (24 - width) // 2 + int(rng.integers(-1, 2)), int(rng.integers(17, 20))
            cv2.putText(image, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.6, 255, 2)
            cv2.imwrite(str(folder / name / f"{number}.png"), image)


def write_photos(folder: pathlib.Path, count: int) -> pathlib.Path:
    """Writes `<folder>/<a or b>/<number>.png`: of several sizes, tall and wide, 180 px and more."""
    for number in range(count):
        height, width = (240, 180 + 10 * number)[:: 1 if number % 3 else -1]
        path = folder / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_png(draw_smooth(number, height, width)))
    return folder


def write_scenes(folder: pathlib.Path, count: int, height: int = 16, width: int = 20) -> None:
    """Writes `images/<n>.png` and `masks/<n>.png`: a bright block (1) before dark noise (0).

    The first row of each mask is 255, of no class.
    """
    for kind in ("images", "masks"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        generator = np.random.default_rng(number)
        mask = np.zeros((height, width), np.uint8)
        top, left = generator.integers(1, (height // 2, width // 2))
        mask[top : top + height // 2, left : left + width // 2] = 1
        pixels = generator.integers(0, 60, (height, width, 3)) + 150 * mask[..., None]
        mask[0] = 255
        (folder / "images" / f"{number:02d}.png").write_bytes(encode_png(pixels.astype(np.uint8)))
        (folder / "masks" / f"{number:02d}.png").write_bytes(encode_png(mask))
