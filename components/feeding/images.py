"""A data set's images by their row in the index: decoded each time, or only once."""

from typing import Any

import numpy as np

from image_pipeline.components.dataset.index import RecordIndex
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError
from image_pipeline.components.views.fast import decode_whole


class StoredImages:
    """Reads and decodes. Threads may share it."""

    def __init__(self, index: RecordIndex, channels: int):
        """Prepares to read; a file is opened when it is first read.

        Args:
          channels: 1 or 3; other images are converted.
        """
        self._index = index
        self._channels = channels
        self._records = StoredRecords(index)

    def load(self, row: int, verify: bool = False) -> np.ndarray:
        """The pixels of one image.

        Args:
          row: row number in the index.
          verify: whether to check the record's checksums.

        Returns:
          uint8 [height, width, channels], read-only.

        Raises:
          UserError: if it cannot be read or decoded; it names the record.
        """
        image = self._records.read_image(row, verify)
        try:
            return decode_whole(image, self._channels)
        except ValueError as error:
            raise UserError(
                f"{self._index.describe(row)} is damaged: {error}; run ingest again, or set "
                "feeding.bad_records=skip to go on without it."
            ) from error


class HeldImages:
    """Decodes each image once, and keeps it. Threads may share it.

    Images of one size are kept in one array, from which a batch is copied at once.
    """

    def __init__(self, index: RecordIndex, channels: int):
        """Decodes each image when it is first read; the arguments are those of `StoredImages`."""
        self._images = StoredImages(index, channels)
        self._is_held = np.zeros(len(index), bool)
        sides = np.stack([index.height, index.width], axis=1)
        self.shape = (*sides[0].tolist(), channels) if (sides == sides[0]).all() else None
        # The array's memory is allocated page by page, as images are decoded.
        self._pixels: Any = (
            [None] * len(index)
            if self.shape is None
            else np.empty((len(index), *self.shape), np.uint8)
        )

    def load(self, row: int, verify: bool = False) -> np.ndarray:
        """As `StoredImages.load`; checksums are verified when it is decoded."""
        # If two threads decode the same image, both write the same bytes: no lock is needed.
        if not self._is_held[row]:
            self._pixels[row] = self._images.load(row, verify)
            self._is_held[row] = True
        return self._pixels[row]

    def can_take(self, rows: np.ndarray, shape: tuple[int, int, int]) -> bool:
        """Whether these rows (int64 [n]) are decoded, and all images of this shape."""
        return self.shape == shape and bool(self._is_held[rows].all())

    def take(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Copies images that it `can_take` into uint8 [n, height, width, channels]."""
        np.take(self._pixels, rows, axis=0, out=out, mode="clip")
