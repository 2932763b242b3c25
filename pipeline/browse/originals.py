"""The files that records were made of, if they are still there."""

import functools
import os
import re
import sys
from typing import Any

import pydantic

from image_pipeline.browse.pictures import Picture, make_png
from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.paths import name_copy
from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.random_access import decode
from image_pipeline.components.images.kind import HEAD_BYTES, tell_kind
from image_pipeline.components.images.prepare import BadImage, prepare_image
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.names import decode_name
from image_pipeline.components.sources.folder import FOLDER, Folder
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.show.shown_values import show_values

# What every browser draws, and none of which can hold a script.
_BROWSERS = ("jpeg", "png", "webp", "gif", "bmp", "avif")
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
# References that are kept once they have been looked for.
_MOST_FOUND = 256


class NoOriginal(Exception):
    """Why the file of a record cannot be shown."""


class Originals:
    """The source that a data set was made from; threads may share it."""

    def __init__(self, data_dir: str, manifest: Manifest, images: str | None):
        """Reads nothing yet.

        Args:
          data_dir: the data set's folder.
          manifest: its manifest, whose options say how its source is read.
          images: the folder of images, or what else ingest took; None if it is not known.

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
        """The bytes of the file that a row is of.

        Args:
          row: of `Catalogue.read`.

        Raises:
          NoOriginal: if it is not known where it is, or it cannot be read.
        """
        if row["state"] == "quarantined" and row["sha256"]:
            copy = name_copy(row["sha256"])
            if files.is_file(files.join(self._data_dir, copy)):
                return self._read_copy(copy)
        if self._images is None:
            raise NoOriginal("The folder of the images is not known; give it with --images.")
        try:
            source, ref = self._find(row["source"])
            limit = self._options.prepare.max_file_bytes
            data = source.read(ref, limit + 1)
        except (UserError, OSError, BadImage) as error:
            why = getattr(error, "message", None) or getattr(error, "strerror", None) or error
            raise NoOriginal(f"It cannot be read from {self._images!r}: {why}.") from error
        if len(data) > limit:
            raise NoOriginal(f"It has more than prepare.max_file_bytes={limit} bytes.")
        return data

    def _read_copy(self, name: str) -> bytes:
        """A quarantined file's bytes; what the list names, or is a link, may be no copy of one."""
        try:
            return Folder(self._data_dir).read(ImageRef(name, 0, 0), sys.maxsize)
        except (OSError, BadImage) as error:
            why = getattr(error, "message", None) or getattr(error, "strerror", None) or error
            raise NoOriginal(f"Its copy {name!r} cannot be read: {why}.") from error

    def draw(self, data: bytes) -> Picture:
        """A file as a browser shows it: as it is, or where browsers cannot, as ingest reads it.

        Raises:
          NoOriginal: if it cannot be decoded.
        """
        kind = tell_kind(data[:HEAD_BYTES])
        if kind.name in _BROWSERS:
            return Picture(f"image/{kind.name}", data)
        as_it_is = {"resize": "none", "encoding": "raw"}
        try:
            image = prepare_image(data, self._options.prepare.model_copy(update=as_it_is))
        except BadImage as error:
            raise NoOriginal(f"It cannot be decoded: {error.message}.") from error
        dtype = record.RAW_FORMATS[image.format.encode()]
        sides = image.height, image.width, image.channels
        return make_png(show_values(decode(StoredImage(image.encoded, *sides, True, dtype))))

    def _look_for(self, name: str) -> tuple[Source, ImageRef]:
        """Finds what a path of the index is called by its source.

        In a folder by its name; of a table or an archive, the references are gone through.
        """
        assert self._images is not None
        if not kind_of(self._images).lists_images:
            raise FileNotFoundError(0, "images of a generator are not made again")
        source = open_source(self._images, self._options)
        if kind_of(self._images) is FOLDER and self._options.video is None:
            return source, ImageRef(self._as_named(name), 0, 0)
        for ref in source.list():
            if decode_name(ref.path) == name:
                return source, ref
        raise FileNotFoundError(0, "there is no such image by now")

    def _as_named(self, name: str) -> str:
        """A path as the file system has it: the index escapes bytes that are not UTF-8."""
        path = files.join(self._images or "", name)
        if "\\x" not in name or not files.is_local(path) or os.path.lexists(path):
            return name
        return os.fsdecode(
            _ESCAPED.sub(lambda each: bytes.fromhex(each[1].decode()), name.encode())
        )
