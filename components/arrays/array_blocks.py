"""Blocks of rows that are unpacked together, kept for the rows that are read next.

Whoever reads row after row, in a few threads, unpacks each block once; memory stays bounded.
"""

import collections
import concurrent.futures
import threading
from collections.abc import Callable, Hashable

import numpy as np

from image_pipeline.components.images.bad_image import BadImage

# Rows are prepared in their order, so few blocks are in use at a time; but a block may be large.
_MOST_BYTES = 128 * 2**20


class BlockCache:
    """The blocks that were used last; a block that several threads ask for is read once."""

    def __init__(self, most_bytes: int = _MOST_BYTES):
        """Is empty; the newest block is kept however large it is."""
        self._most_bytes = most_bytes
        self._held_bytes = 0
        self._lock = threading.Lock()
        self._blocks: collections.OrderedDict[
            Hashable, concurrent.futures.Future[np.ndarray | BadImage]
        ] = collections.OrderedDict()

    def get(self, key: Hashable, read: Callable[[], np.ndarray]) -> np.ndarray:
        """A block's rows.

        Args:
          key: what is read.
          read: reads it; a block that is damaged is not tried again for each of its rows.

        Raises:
          BadImage: if it is damaged.
        """
        with self._lock:
            block, is_new = self._blocks.get(key), key not in self._blocks
            if block is None:
                block = self._blocks[key] = concurrent.futures.Future()
            self._blocks.move_to_end(key)
        if is_new:
            self._fill(key, block, read)
        found = block.result()
        if isinstance(found, BadImage):
            raise BadImage(found.reason, found.message)
        return found

    def _fill(
        self,
        key: Hashable,
        block: concurrent.futures.Future[np.ndarray | BadImage],
        read: Callable[[], np.ndarray],
    ) -> None:
        try:
            rows = read()
        except BadImage as error:
            block.set_result(error)
            return
        except BaseException as error:  # It may go better the next time.
            with self._lock:
                del self._blocks[key]
            block.set_exception(error)
            return
        block.set_result(rows)
        with self._lock:
            self._held_bytes += rows.nbytes
            self._drop(key)

    def _drop(self, newest: Hashable) -> None:
        """Forgets the blocks that were not used for longest; those being read are no burden yet."""
        for key in list(self._blocks):
            if self._held_bytes <= self._most_bytes:
                return
            if key != newest and self._blocks[key].done():
                found = self._blocks.pop(key).result()
                self._held_bytes -= 0 if isinstance(found, BadImage) else found.nbytes


BLOCKS = BlockCache()
"""Of all arrays that this process reads."""
