"""The work that all writers have in common, and the files that they read."""

import os
import pathlib

import cv2
import numpy as np

SIZE_PX, QUALITY = 256, 90


def list_photos(photos: str) -> list[str]:
    """All files of a folder, in order."""
    return sorted(entry.path for entry in os.scandir(photos) if entry.is_file())


def load_resized(path: str) -> np.ndarray:
    """Decodes a file and shrinks its shorter side to 256 px: uint8 [height, width, 3], BGR."""
    return resize(cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR))


def resize(image: np.ndarray) -> np.ndarray:
    """Shrinks the shorter side to 256 px where it is longer."""
    scale = SIZE_PX / min(image.shape[:2])
    if scale >= 1:
        return image
    size = [max(SIZE_PX, round(side * scale)) for side in image.shape[1::-1]]
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def encode(image: np.ndarray) -> bytes:
    """JPEG with quality 90."""
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes()


def convert(path: str) -> bytes:
    """A file's photo, resized, as JPEG."""
    return encode(load_resized(path))


def convert_bytes(stored: bytes) -> bytes:
    """The same for a file's bytes."""
    image = cv2.imdecode(np.frombuffer(stored, np.uint8), cv2.IMREAD_COLOR)
    return encode(resize(image))


def name_photo(path: str) -> str:
    """A photo's name in a data set."""
    return pathlib.Path(path).stem
