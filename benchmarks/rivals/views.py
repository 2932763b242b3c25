"""The views of an image that readers without views of their own make.

Like all that a rival's process imports, it needs nothing of this project.
"""

import math

import cv2
import numpy as np

from rivals import protocol

_CROP_TRIES = 10


def random_view(
    image: np.ndarray, size: tuple[int, int], generator: np.random.Generator
) -> np.ndarray:
    """Random-resized-crop and flip: uint8 [height, width, 3]."""
    return resize_and_flip(random_crop(image, generator), size, generator)


def resize_and_flip(
    crop: np.ndarray, size: tuple[int, int], generator: np.random.Generator
) -> np.ndarray:
    """The view of a crop: uint8 [height, width, 3]."""
    resized = cv2.resize(crop, size)
    return cv2.flip(resized, 1) if generator.random() < 0.5 else resized


def centre_view(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The middle, resized where it has not the size already: uint8 [height, width, 3]."""
    cropped = centre_crop(image)
    if cropped.shape[:2] == size:
        return cropped
    return cv2.resize(cropped, size, interpolation=cv2.INTER_AREA)


def random_crop(image: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """A random crop: a view of the image."""
    top, left, rows, columns = draw_crop(*image.shape[:2], generator)
    return image[top : top + rows, left : left + columns]


def draw_crop(height: int, width: int, generator: np.random.Generator) -> tuple[int, int, int, int]:
    """A crop by torchvision's rule (`RandomResizedCrop.get_params`): top, left, rows, columns."""
    least, most = (math.log(aspect) for aspect in protocol.CROP_ASPECT)
    for _ in range(_CROP_TRIES):
        area = height * width * generator.uniform(*protocol.CROP_AREA)
        aspect = math.exp(generator.uniform(least, most))
        rows, columns = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
        if 0 < rows <= height and 0 < columns <= width:
            top = int(generator.integers(height - rows + 1))
            left = int(generator.integers(width - columns + 1))
            return top, left, rows, columns
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side


def centre_crop(image: np.ndarray) -> np.ndarray:
    """The middle square that the centre view keeps: a view of the image."""
    height, width = image.shape[:2]
    side = round(protocol.CENTRE_FRACTION * min(height, width))
    top, left = (height - side) // 2, (width - side) // 2
    return image[top : top + side, left : left + side]
