"""Batches of images, made by a pool of threads: decoded, cropped and resized, a batch at once.

TensorFlow would run many small ops for each image, and take 0.3 to 0.4 ms of processor time more
per image (`python benchmarks/read.py`).
"""

import concurrent.futures
from collections.abc import Callable

import numpy as np

from image_pipeline.components.threads import usable_cores
from image_pipeline.components.views.options import ViewOptions

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
