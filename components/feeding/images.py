"""A data set's images and masks by their row in the index: decoded each time, or only once."""

from typing import Any

import numpy as np

from image_pipeline.components.arrays.in_place import check_file, fetch
from image_pipeline.components.dataset.index import Entry, RecordIndex
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError
from image_pipeline.components.views import fast
from image_pipeline.components.views.fast_decode import decode_mask, decode_whole
from image_pipeline.components.views.options import ViewOptions


def load_image(
    records: StoredRecords, at: int | Entry, channels: int, verify: bool = False
) -> np.ndarray:
    """Reads and decodes one image.

    Returns:
      [height, width, channels], of the stored type, not to be written to; float32, if gray was
      made RGB of another type than uint8, or the other way.

    Raises:
      UserError: naming the record, if it cannot be read or decoded.
    """
    image = records.read_image(at, verify)
    try:
        return decode_whole(fetch(image), channels)
    except ValueError as error:
        raise records.bad_record(at, error) from error


def view_image(
    records: StoredRecords,
    at: int | Entry,
    window: np.ndarray | None,
    view: ViewOptions,
    out: np.ndarray,
    verify: bool = False,
) -> None:
    """Reads an image, and makes its view: as `load_image`, and for the rest `fast.view_image`."""
    image = records.read_image(at, verify)
    try:
        fast.view_image(fetch(image), window, view, out)
    except ValueError as error:
        raise records.bad_record(at, error) from error


def load_mask(records: StoredRecords, at: int | Entry, verify: bool = False) -> np.ndarray:
    """Reads and decodes the mask of one image: uint8 [height, width, 1]; as `load_image`."""
    entry = records.locate(at)
    encoded = records.read_mask(entry, verify)
    try:
        return decode_mask(encoded, (entry.height, entry.width))
    except ValueError as error:
        raise records.bad_record(entry, error) from error


def check_places(records: StoredRecords) -> None:
    """Looks for the files that hold the images of records in place, by each shard's first record.

    Raises:
      UserError: if one is gone, or was changed.
    """
    for firsts in records.index.list_first_rows():
        for row in firsts.tolist():
            if not _is_in_place(records, row):
                break  # Nor is any other of its data set.


def _is_in_place(records: StoredRecords, row: int) -> bool:
    try:
        image = records.read_image(row)
    except UserError:  # A damaged record is an error, or skipped, when it is read.
        return True
    return check_file(image)


class HeldImages:
    """Decodes each image once, and keeps it. Threads may share it.

    Images of one size are kept in one array, from which a batch is copied at once.
    """

    def __init__(self, records: StoredRecords, channels: int):
        """Decodes each image when it is first read; the arguments are those of `load_image`."""
        self.records, self._channels = records, channels
        index = records.index
        self._is_held = np.zeros(len(index), bool)
        first = index.locate(np.zeros(1, np.int64))[0]
        is_same = all(
            (rows.height == first.height).all() and (rows.width == first.width).all()
            for rows in index.scan()
        )
        self.shape = (first.height, first.width, channels) if is_same else None
        # The array's memory is allocated page by page, as images are decoded.
        self._pixels: Any = (
            [None] * len(index)
            if self.shape is None
            else np.empty((len(index), *self.shape), self._dtype(index))
        )

    def load(self, at: int | Entry, verify: bool = False) -> np.ndarray:
        """As `load_image`; checksums are verified when it is decoded."""
        row = at.row if isinstance(at, Entry) else at
        # If two threads decode the same image, both write the same bytes: no lock is needed.
        if not self._is_held[row]:
            self._pixels[row] = self._decode(at, verify)
            self._is_held[row] = True
        return self._pixels[row]

    def _decode(self, at: int | Entry, verify: bool) -> np.ndarray:
        return load_image(self.records, at, self._channels, verify)

    def _dtype(self, index: RecordIndex) -> str:
        """The type of all images, see `load_image`."""
        is_converted = any((rows.channels != self._channels).any() for rows in index.scan())
        return "float32" if is_converted and index.dtype != "uint8" else index.dtype

    def can_take(self, rows: np.ndarray, shape: tuple[int, int, int]) -> bool:
        """Whether these rows (int64 [n]) are decoded, and all images of this shape."""
        return self.shape == shape and bool(self._is_held[rows].all())

    def take(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Copies images that it `can_take` into [n, height, width, channels]."""
        if self._pixels.dtype == out.dtype:
            np.take(self._pixels, rows, axis=0, out=out, mode="clip")
        else:
            out[...] = self._pixels[rows]


class HeldMasks(HeldImages):
    """Decodes each mask once, and keeps it."""

    def __init__(self, records: StoredRecords):
        """Decodes each mask when it is first read."""
        super().__init__(records, channels=1)

    def _dtype(self, index: RecordIndex) -> str:
        return "uint8"

    def _decode(self, at: int | Entry, verify: bool) -> np.ndarray:
        return load_mask(self.records, at, verify)
