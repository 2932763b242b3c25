"""Which number an iteration of a data set has, so that each is another epoch than the one before.

Whoever wants several epochs of a data set iterates it again: Keras does for every epoch of `fit`,
`repeat()` does, and a loop of one's own. A data set that only knew its arguments would give them
the same epoch each time. So it counts its iterators: an iterator takes its number when it is asked
for its first batch, and keeps it, whatever others do meanwhile.
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
        """Starts with none.

        Args:
          more: how to get what follows, if there must be one iteration only; None for any number.
        """
        self._lock = threading.Lock()
        self._next = 0
        self._more = more

    def flat_map(self, read: Callable[[tf.Tensor], tf.data.Dataset]) -> tf.data.Dataset:
        """What `read` gives for the number (int64 scalar) of the iteration that asks for it."""
        # A checkpoint of an iterator holds what `flat_map` was given, so that one that is restored
        # keeps its number, and takes none of this data set.
        one = tf.data.Dataset.from_tensors(tf.constant(0, tf.int64))
        return one.map(self._take_number).flat_map(read)

    def _take_number(self, zero: tf.Tensor) -> tf.Tensor:
        (number,) = call_python(lambda _: [self.begin()], [zero], [tf.int64])
        return tf.ensure_shape(number, [])

    def begin(self) -> np.int64:
        """The number of an iteration that begins.

        Raises:
          UserError: if there must be one only, and this is another.
        """
        with self._lock:
            number, self._next = self._next, self._next + 1
        if number and self._more:
            raise UserError(f"these batches can be iterated once only; {self._more}.")
        return np.int64(number)
