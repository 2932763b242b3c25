"""Numbers the iterations of a data set, so that each is a different epoch.

To get several epochs, a data set is iterated again: by Keras for every epoch of `fit`, by
`repeat()`, or by one's own loop. A data set that only knew its arguments would give the same epoch
each time. So it counts its iterators: an iterator takes its number when it is asked for its first
batch, and keeps it, whatever others do meanwhile.
"""

import threading
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.python_calls import call_python

# How many epochs lie between two iterations of endless data: more than any run has.
ENDLESS = 2**32


class Iterations:
    """Numbers the iterations of one data set, from 0. Threads may share it."""

    def __init__(self, more: str | None = None) -> None:
        """Starts with no iteration.

        Args:
          more: if only one iteration is allowed, how to get what follows; None for any number.
        """
        self._lock = threading.Lock()
        self._next = 0
        self._more = more

    def flat_map(self, read: Callable[[tf.Tensor], tf.data.Dataset]) -> tf.data.Dataset:
        """What `read` gives for the number (int64 scalar) of the iteration that asks for it."""
        # An iterator's checkpoint holds the input of `flat_map`, so that a restored iterator keeps
        # its number, and takes no new one.
        one = tf.data.Dataset.from_tensors(tf.constant(0, tf.int64))
        return one.map(self._take_number).flat_map(read)

    def go_to(self, number: int) -> None:
        """Lets the next iteration that begins have this number."""
        with self._lock:
            self._next = number

    def _take_number(self, zero: tf.Tensor) -> tf.Tensor:
        (number,) = call_python(lambda _: [self.begin()], [zero], [tf.int64])
        return tf.ensure_shape(number, [])

    def begin(self) -> np.int64:
        """The number of an iteration that begins.

        Raises:
          UserError: if only one is allowed, and this is another.
        """
        with self._lock:
            number, self._next = self._next, self._next + 1
        if number and self._more:
            raise UserError(f"these batches can be iterated only once; {self._more}.")
        return np.int64(number)
