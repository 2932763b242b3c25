"""Stored and original pictures, as a browser gets them; none of them needs TensorFlow."""

import functools
import os
import re
import sys
from typing import Any

import cv2
import numpy as np
import pydantic

from image_pipeline.components import files
from image_pipeline.components.arrays.in_place import fetch
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.paths import name_copy
from image_pipeline.components.dataset.stored import IMAGE_KEYS, StoredImage, take_image
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.random_access import decode
from image_pipeline.components.images.kind import HEAD_BYTES, tell_kind
from image_pipeline.components.images.prepare import BadImage, prepare_image
from image_pipeline.components.labels.kinds import BOXES, MASKS, find_kind
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.names import decode_name
from image_pipeline.components.sources.folder import FOLDER, Folder
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.show.html import Content, encode_picture
from image_pipeline.show.overlays import (
    NamedBoxes,
    draw_boxes,
    lay_over,
    make_colors,
    show_values,
    shrink,
)

# What every browser draws, and none of which can hold a script.
_BROWSERS = ("jpeg", "png", "webp", "gif", "bmp", "avif")
_THUMBNAIL_PX = 224
_QUALITY = 88
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
# References that are kept once they have been looked for.
_MOST_FOUND = 256
_MASK_FLAGS = cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION


class Report(Content):
    """A report's page, which carries its own policy of what a browser may load and run."""


class NoPicture(Exception):
    """Why a picture cannot be shown."""


def make_png(pixels: np.ndarray) -> Content:
    """A picture with exactly these pixels, uint8 [height, width, 1 or 3]."""
    return encode_picture(pixels, "png", compress_level=1)


def make_thumbnail(pixels: np.ndarray) -> Content:
    """A picture of at most 224 pixels a side, of uint8 [height, width, 1 or 3].

    A smaller one keeps its pixels.
    """
    small = shrink(pixels, _THUMBNAIL_PX)
    return make_png(pixels) if small is pixels else encode_picture(small, "jpeg", quality=_QUALITY)


def decode_stored(serialized: bytes, labelled: Manifest | None = None) -> np.ndarray:
    """The image of a record (a tf.train.Example) as it is shown.

    Returns:
      uint8 [height, width, 1 or 3]: the stored pixels, or of other types and channels what
      `show_values` makes of them.

    Raises:
      ValueError: if it cannot be decoded.
      UserError: if it lies in another file that cannot be read.
    """
    columns = {column.key: column for column in record.COLUMNS}
    features = {key: record.read_feature(serialized, columns[key]) for key in IMAGE_KEYS}
    pixels = show_values(decode(fetch(take_image(features))))
    kind = None if labelled is None else find_kind(labelled.columns)
    if labelled is None or kind not in (MASKS, BOXES):
        return pixels
    if kind is MASKS:
        mask = np.frombuffer(record.read_feature(serialized, record.MASK_COLUMN), np.uint8)
        ids = cv2.imdecode(mask, _MASK_FLAGS) if len(mask) else None
        if ids is None or ids.shape != pixels.shape[:2]:
            raise ValueError("its mask cannot be decoded, or has another size")
        return lay_over(pixels, ids[..., None], make_colors(labelled.options.get("masks")))
    *sides, classes, crowds = (record.read_feature(serialized, each) for each in BOXES.columns)
    names = BOXES.class_names(labelled)
    named = [names[id_ - 1] for id_ in classes]  # The first class is 1.
    return draw_boxes(pixels, NamedBoxes.of_record(sides, classes, named, crowds))


class Originals:
    """The source that a data set was made from; threads may share it."""

    def __init__(self, data_dir: str, manifest: Manifest, images: str | None):
        """Reads nothing yet.

        Raises:
          UserError: if images do not fit the options.
        """
        self._data_dir, self._images = data_dir, images
        try:
            self._options = IngestOptions.read_stored(manifest.options)
        except pydantic.ValidationError:
            self._options, self._images = IngestOptions(), None  # Another version's.
        self._find = functools.lru_cache(_MOST_FOUND)(self._look_for)

    def read(self, row: dict[str, Any]) -> bytes:
        """The bytes of the file that a row of `Catalogue.read` is of.

        Raises:
          NoPicture: if it is not known where it is, or it cannot be read.
        """
        images, limit = self._images, self._options.prepare.max_file_bytes
        try:
            if row["state"] == "quarantined" and row["sha256"]:
                copy = name_copy(row["sha256"])
                if files.is_file(files.join(self._data_dir, copy)):
                    images = copy  # What the list names, or is a link, may be no copy.
                    return Folder(self._data_dir).read(ImageRef(copy, 0, 0), sys.maxsize)
            if images is None:
                raise NoPicture("The folder of the images is not known; give it with --images.")
            source, ref = self._find(images, row["source"])
            data = source.read(ref, limit + 1)
        except (UserError, OSError, BadImage) as error:
            why = getattr(error, "message", None) or getattr(error, "strerror", None) or error
            raise NoPicture(f"It cannot be read from {images!r}: {why}.") from error
        if len(data) > limit:
            raise NoPicture(f"It has more than prepare.max_file_bytes={limit} bytes.")
        return data

    def draw(self, data: bytes) -> Content:
        """A file as a browser shows it: as it is, or where browsers cannot, as ingest reads it.

        Raises:
          NoPicture: if it cannot be decoded.
        """
        kind = tell_kind(data[:HEAD_BYTES])
        if kind.name in _BROWSERS:
            return Content(f"image/{kind.name}", data)
        as_it_is = {"resize": "none", "encoding": "raw"}
        try:
            image = prepare_image(data, self._options.prepare.model_copy(update=as_it_is))
        except BadImage as error:
            raise NoPicture(f"It cannot be decoded: {error.message}.") from error
        dtype = record.RAW_FORMATS[image.format.encode()]
        sides = image.height, image.width, image.channels
        return make_png(show_values(decode(StoredImage(image.encoded, *sides, True, dtype))))

    def _look_for(self, images: str, name: str) -> tuple[Source, ImageRef]:
        """Finds what a path of the index is called by its source.

        In a folder by its name; of a table or an archive, the references are gone through.
        """
        if not kind_of(images).lists_images:
            raise FileNotFoundError(0, "images of a generator are not made again")
        from image_pipeline.components.meaning.open_source import open_source

        source = open_source(images, self._options)
        if kind_of(images) is FOLDER and self._options.video is None:
            path = files.join(images, name)
            if "\\x" in name and files.is_local(path) and not os.path.lexists(path):
                # The index escapes bytes that are not UTF-8.
                unescaped = _ESCAPED.sub(lambda x: bytes.fromhex(x[1].decode()), name.encode())
                name = os.fsdecode(unescaped)
            return source, ImageRef(name, 0, 0)
        for ref in source.list():
            if decode_name(ref.path) == name:
                return source, ref
        raise FileNotFoundError(0, "there is no such image any more")
