"""Why a file does not become an image: one exception, and the short list of its reasons."""

import struct
import zlib

import cv2
from PIL import Image, ImageCms

EMPTY = "empty"
NOT_AN_IMAGE = "not_an_image"
UNSUPPORTED = "unsupported"
TRUNCATED = "truncated"
CORRUPT = "corrupt"
TOO_LARGE_FILE = "too_large_file"
TOO_MANY_PIXELS = "too_many_pixels"
TOO_SMALL = "too_small"
REASONS = (
    EMPTY,
    NOT_AN_IMAGE,
    UNSUPPORTED,
    TRUNCATED,
    CORRUPT,
    TOO_LARGE_FILE,
    TOO_MANY_PIXELS,
    TOO_SMALL,
)

# What the decoders raise on hostile bytes. Not `Exception`, which would call our own bugs corrupt.
DECODER_ERRORS = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    cv2.error,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    ImageCms.PyCMSError,
)


class BadImage(Exception):
    """A file that does not become an image; `reason` is one of `REASONS`."""

    def __init__(self, reason: str, message: str):
        """Keeps both in `args`, so that the error survives pickling between Beam workers."""
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        """Reads as one log line."""
        return f"{self.reason}: {self.message}"
