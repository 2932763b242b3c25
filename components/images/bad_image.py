"""Why a file does not become an image: one exception, and the short list of its reasons."""

import re
import struct
import zlib
from collections.abc import Callable
from typing import Any

import cv2
from PIL import Image, ImageCms

from image_pipeline.components.errors import NO_THREAD, explain_shortage

EMPTY = "empty"
NOT_AN_IMAGE = "not_an_image"
ARCHIVE = "archive"
UNSUPPORTED = "unsupported"
TRUNCATED = "truncated"
CORRUPT = "corrupt"
TOO_LARGE_FILE = "too_large_file"
TOO_MANY_PIXELS = "too_many_pixels"
TOO_SMALL = "too_small"
REASONS = (
    EMPTY,
    NOT_AN_IMAGE,
    ARCHIVE,
    UNSUPPORTED,
    TRUNCATED,
    CORRUPT,
    TOO_LARGE_FILE,
    TOO_MANY_PIXELS,
    TOO_SMALL,
)

# What a third party's decoder raises on hostile bytes; Pillow's plugins raise nearly all of these.
# Only for calls into such code: around our own it would report our bugs as corrupt images. No
# MemoryError: sizes are checked before pixels are decoded, so it says nothing about the image.
DECODER_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
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
_MOST_CHARACTERS = 500
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class BadImage(Exception):
    """A file that does not become an image; `reason` is one of `REASONS`."""

    def __init__(self, reason: str, message: str):
        """Keeps both in `args`, so that the error survives pickling between Beam workers."""
        # An object's address differs in every run.
        message = _ADDRESS.sub("", message)
        # A decoder may quote the whole file.
        message = message if len(message) <= _MOST_CHARACTERS else f"{message[:_MOST_CHARACTERS]}…"
        # It may name a file whose name is not UTF-8.
        reason, message = (t.encode(errors="backslashreplace").decode() for t in (reason, message))
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


def call_decoder(
    function: Callable[..., Any],
    *args: Any,
    errors: tuple[type[Exception], ...] = DECODER_ERRORS,
    **settings: Any,
) -> Any:
    """Calls a third party's function, which may fail on hostile bytes.

    Args:
      function: the third party's own, never one of ours: its errors become the image's.
      errors: what it may raise on bad bytes.

    Raises:
      BadImage: the decoder gave up.
      MemoryError, UserError: there is too little memory, or the like, which is not the image's
        fault.
    """
    try:
        return function(*args, **settings)
    except errors as error:
        raise explain_decoder_error(error) from error


def explain_decoder_error(error: Exception) -> Exception:
    """Returns what to raise for an error of a third party's decoder.

    That is a BadImage, unless the machine is to blame. Its words do not count for that: they may
    quote the file.
    """
    if isinstance(error, cv2.error) and error.code == cv2.Error.StsNoMem:
        return MemoryError(str(error))
    if str(error) == NO_THREAD or (type(error) is OSError and error.errno):
        return explain_shortage(error) or _bad_image(error)
    return _bad_image(error)


def _bad_image(error: Exception) -> BadImage:
    lowered = str(error).lower()
    # Pillow's word for layouts that it knows, but does not read.
    if lowered.startswith("unsupported"):
        message = f"a rare layout that Pillow does not read: {error!r}"
        way_out = "convert it to PNG, for example with ImageMagick: magick FILE FILE.png"
        return BadImage(UNSUPPORTED, f"{message}; {way_out}")
    reason = TRUNCATED if "truncated" in lowered else CORRUPT
    return BadImage(reason, f"the decoder gave up: {error!r}")
