"""Images and masks by their row in the index: decoded each time, or only once; and in batches.

A batch is made by a pool of threads, at once: TensorFlow would run many small ops for each image,
and take 0.3 to 0.4 ms of processor time more per image (`python benchmarks/read.py`).
"""

import concurrent.futures
from collections.abc import Callable
from typing import Any

import numpy as np

from image_pipeline.components.arrays.in_place import check_file, fetch
from image_pipeline.components.dataset.index import Entry, RecordIndex
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.errors import UserError
from image_pipeline.components.threads import usable_cores
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
        super().__init__(records, channels=1)

    def _dtype(self, index: RecordIndex) -> str:
        return "uint8"

    def _decode(self, at: int | Entry, verify: bool) -> np.ndarray:
        return load_mask(self.records, at, verify)


# Images that a thread takes at once: handing over costs 0.05 to 0.1 ms, ten images of 0.5 ms more.
_CHUNK = 8
# TensorFlow takes over arrays at such addresses, and copies others.
_ALIGNED_BYTES = 64

# Writes the view of the batch's image with this number into [height, width, channels].
Fill = Callable[[int, np.ndarray], None]


class BatchMaker:
    """Makes batches of images of one size. Threads may share it."""

    def __init__(self, view: ViewOptions, threads: int | None = None):
        """Threads are started with the first batch.

        Args:
          view: the images' size.
          threads: how many decode at once; None for one per core.
        """
        self.view = view
        self._threads = threads or usable_cores()
        self._pool = concurrent.futures.ThreadPoolExecutor(self._threads, "images")

    def make(self, fill: Fill, count: int) -> np.ndarray:
        """Makes one batch.

        Args:
          fill: called in any order, by several threads.
          count: number of images.

        Returns:
          `view.dtype` [count, view.height_px, view.width_px, view.channels].
        """
        out = self.empty(count)

        def make_chunk(start: int) -> None:
            for number in range(start, min(start + _CHUNK, count)):
                fill(number, out[number])

        self._do_all(make_chunk, range(0, count, _CHUNK))
        return out

    def _do_all(self, make_chunk: Callable[[int], None], starts: range) -> None:
        try:
            futures = [self._pool.submit(make_chunk, start) for start in starts]
        except RuntimeError:  # Pools accept no work once the interpreter is shutting down.
            list(map(make_chunk, starts))
        else:
            for future in futures:
                future.result()

    def empty(self, count: int) -> np.ndarray:
        """A batch without content: `view.dtype` [count, height_px, width_px, channels]."""
        pixel_bytes = self.view.pixel_bytes
        memory = self._allocate(count, self.view.channels * pixel_bytes)
        return memory if pixel_bytes == 1 else memory.view(np.float32)

    def empty_masks(self, count: int) -> np.ndarray:
        """The same for masks: uint8 [count, view.height_px, view.width_px, 1]."""
        return self._allocate(count, 1)

    def _allocate(self, count: int, channels: int) -> np.ndarray:
        shape = (count, self.view.height_px, self.view.width_px, channels)
        size = int(np.prod(shape))
        memory = np.empty(size + _ALIGNED_BYTES, np.uint8)
        start = -memory.ctypes.data % _ALIGNED_BYTES
        return memory[start : start + size].reshape(shape)
