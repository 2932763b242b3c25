"""Small pictures as data URIs, so that a page needs no other file."""

import contextlib
import io
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageFile

from image_pipeline.components import files
from image_pipeline.components.dataset.paths import name_copy
from image_pipeline.components.images.bad_image import DECODER_ERRORS, BadImage
from image_pipeline.components.images.jpeg import has_many_scans
from image_pipeline.components.labels.kinds import BOXES
from image_pipeline.components.sources.folder import Folder
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.pixels import shrink
from image_pipeline.show.html import make_data_uri
from image_pipeline.show.overlays import NamedBoxes, draw_boxes

SIDE_PX = 320
"""The longer side of a picture: the page shows it smaller, and enlarges it to this."""
_QUALITY = 75
# Up to this size a lossless file is as small, and single pixels are visible.
_LOSSLESS_SIDE_PX = 48
# Quarantined files may be crafted to fill the memory of whoever opens them.
_MOST_FILE_BYTES = 64 * 2**20
_MOST_PIXELS = 64 * 2**20


class Thumbnails:
    """Makes each thumbnail once."""

    def __init__(self, data: DataSet, data_dir: str):
        """Takes the data set, and its folder, where the quarantine is."""
        self._data = data
        self._data_dir = data_dir
        self._made: dict[int, str | None] = {}

    def of_row(self, row: int | None) -> str | None:
        """The thumbnail of a stored image; None if it cannot be decoded."""
        if row is None:
            return None
        if row not in self._made:
            try:
                self._made[row] = self._make(row)
            except ValueError:
                self._made[row] = None
        return self._made[row]

    def _make(self, row: int) -> str:
        boxes = self._data.read_boxes(row) if self._data.kind is BOXES else None
        return make_thumbnail(self._data.read_shown(row), boxes)

    def of_quarantined(self, sha256: str | None) -> str | None:
        """The thumbnail of whatever can be decoded of a rejected file; None if nothing can."""
        if sha256 is None:
            return None
        name = name_copy(sha256)
        if not files.exists(files.join(self._data_dir, name)):
            return None
        try:
            copy = ImageRef(name, _MOST_FILE_BYTES + 1, 0)
            pixels = decode_what_can_be(Folder(self._data_dir).read(copy, _MOST_FILE_BYTES))
        except (OSError, BadImage):  # It may be a link out of the data set, or no file.
            return None
        return None if pixels is None else make_thumbnail(pixels)


def make_thumbnail(pixels: np.ndarray, boxes: NamedBoxes | None = None) -> str:
    """Shrinks an image, and writes it as a data URI.

    Args:
      pixels: uint8 [height, width, 1 or 3].
      boxes: what is drawn on the small image.
    """
    small = shrink(pixels, SIDE_PX)
    small = small if boxes is None else draw_boxes(small, boxes)
    picture = Image.fromarray(small[..., 0] if small.shape[2] == 1 else small)
    lossless = max(small.shape) <= _LOSSLESS_SIDE_PX
    if lossless:
        return make_data_uri(picture, "png")
    return make_data_uri(picture, "webp", quality=_QUALITY)


def decode_what_can_be(encoded: bytes) -> np.ndarray | None:
    """Leniently decodes a file that ingest refused: uint8 [height, width, 3], or None."""
    if has_many_scans(encoded):
        return None
    try:
        with _truncated_images_load(), Image.open(io.BytesIO(encoded)) as image:
            if image.width * image.height > _MOST_PIXELS:
                return None
            return np.asarray(image.convert("RGB"))
    except DECODER_ERRORS:
        return None  # Any error: the file is known to be bad.


@contextlib.contextmanager
def _truncated_images_load() -> Iterator[None]:
    """Lets Pillow fill in missing pixels, for which it has only a process-wide switch."""
    before = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before
