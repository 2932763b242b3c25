"""Small drawn images, for where no folder of images is given."""

import pathlib

import cv2
import numpy as np


def draw_images(target: pathlib.Path, per_class: int = 400) -> pathlib.Path:
    """Draws small pictures of noise, two classes of them."""
    for code, name in enumerate(("cat", "dog")):
        (target / name).mkdir(parents=True)
        for number in range(per_class):
            random = np.random.default_rng(1_000_000 * code + number)
            pixels = random.integers(0, 256, (32, 32, 3), np.uint8)
            cv2.imwrite(str(target / name / f"{number}.png"), pixels)
    return target
