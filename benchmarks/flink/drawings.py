"""Small drawn images, for where no folder of images is given."""

import pathlib

import cv2
import numpy as np


def draw_images(target: pathlib.Path, per_class: int = 400) -> pathlib.Path:
    """Draws small pictures of noise, two classes of them."""
    for code, name in enumerate(("cat", "dog")):
        (target / name).mkdir(parents=True)
        for number in range(per_class):
            draw_image(target / name / f"{number}.png", 1_000_000 * code + number)
    return target


def draw_image(target: pathlib.Path, seed: int) -> None:
    """Draws a small picture of noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (32, 32, 3), np.uint8)
    cv2.imwrite(str(target), pixels)
