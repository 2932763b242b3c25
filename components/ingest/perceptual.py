"""The perceptual hash of a stored image: images that look alike differ in few of its bits."""

import cv2
import imagehash
import numpy as np
from PIL import Image

from image_pipeline.components.images.prepare import PreparedImage


def hash_image(image: PreparedImage) -> int:
    """Hashes what an image looks like, as pHash does (`imagehash.phash`).

    The image is shrunk to 32 x 32 grey pixels; each of the 64 bits says whether one of the 8 x 8
    lowest frequencies of its cosine transform is above their median. Size, compression, brightness
    and contrast hardly change that; a mirrored, turned or cropped image has another hash, and all
    blank images look alike. Decoding the luma of a stored 256-pixel JPEG and hashing it costs
    about 0.7 ms, a fifth of what preparing a photo costs.

    Args:
      image: the image in its stored form.

    Returns:
      The hash, 0 to 2**64 - 1.
    """
    return hash_gray(_read_gray(image))


def hash_gray(gray: np.ndarray) -> int:
    """The hash of gray pixels, see `hash_image`.

    Args:
      gray: uint8 [height, width].
    """
    bits = imagehash.phash(Image.fromarray(gray)).hash  # bool [8, 8]
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


def _read_gray(image: PreparedImage) -> np.ndarray:
    """The stored pixels as uint8 [height, width]."""
    data = np.frombuffer(image.encoded, np.uint8)
    if image.format != "raw":
        gray = cv2.imdecode(data, cv2.IMREAD_GRAYSCALE)
        assert gray is not None, "the stored image was encoded or checked just now"
        return gray
    if image.channels == 1:
        return data.reshape(image.height, image.width)
    return cv2.cvtColor(data.reshape(image.height, image.width, 3), cv2.COLOR_RGB2GRAY)
