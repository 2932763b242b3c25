"""Where training's time goes, epoch by epoch, with each epoch's metrics."""

import time
from typing import Any

import keras
import tensorflow as tf

from image_pipeline.components.training.history import History
from image_pipeline.components.training.steps_per_execution import StepsCallback


class EpochClock(StepsCallback):
    """Measures every epoch: its total, its loop of steps, and how long the loop waited for batches.

    It also keeps each epoch's metrics.

    Keras asks for batches inside a compiled function, so `watch` records the times there. The wait
    measured is what remains after all prefetching: the model had nothing to work on.
    """

    def __init__(self, model: keras.Model):
        """Takes the model that is trained.

        With several devices, a thread prefetches batches for each of them, and waits however fast
        the input is, so nothing is measured.
        """
        super().__init__()
        self._watches = model.distribute_strategy is tf.distribute.get_strategy()
        self._at_once = model.steps_per_execution
        # Of each epoch: its metrics, and three times as in `History`.
        self._epochs: list[tuple[dict[str, Any], float, float, float | None]] = []
        self._started_s = self._loop_s = self._wait_s = 0.0
        self._compiled: set[int] = set()
        with tf.device("CPU:0"):  # where the data are
            self._waited = tf.Variable(0.0, dtype=tf.float64, trainable=False)
            # Of a call of several steps: when its first batch was asked for, when that came, and
            # when its last one came.
            self._unset = tf.zeros([3], tf.float64)
            self._call = tf.Variable(self._unset, trainable=False)

    @tf.autograph.experimental.do_not_convert
    def watch(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """The same batches; records when each was asked for and when it came."""
        if not self._watches:
            return batches

        def read_clock(_: tf.Tensor) -> tf.Tensor:
            return tf.timestamp()

        def stamp(asked: tf.Tensor, batch: Any) -> Any:
            came = tf.timestamp()
            if self._at_once == 1:
                self._waited.assign_add(came - asked)
            else:
                first = tf.where(self._call > 0, self._call, tf.stack([asked, came, came]))
                self._call.assign(tf.stack([first[0], first[1], came]))
            return batch

        # A zipped data set takes from each of its inputs in turn.
        clock = tf.data.Dataset.counter().map(read_clock)
        stamped = tf.data.Dataset.zip(clock, batches).map(stamp)
        options = tf.data.Options()
        # Another prefetch would do the waiting instead.
        options.experimental_optimization.inject_prefetch = False
        return stamped.with_options(options)

    def leave_out(self, seconds: float) -> None:
        """Leaves out time that something else took within the epoch."""
        self._started_s += seconds

    def go_on(self, history: History) -> None:
        """Begins with the epochs that training had ended when it was interrupted."""
        waits = history.input_wait_seconds_per_epoch
        self._epochs = [
            (
                {name: values[epoch] for name, values in history.metrics.items()},
                history.seconds_per_epoch[epoch],
                history.training_seconds_per_epoch[epoch],
                None if waits is None else waits[epoch],
            )
            for epoch in range(history.epochs)
        ]

    def history(self, steps_per_epoch: int) -> History:
        """Every epoch that has ended; of one that was interrupted, its last part."""
        ended = self._epochs
        metrics, epochs, loops, waits = zip(*ended, strict=True) if ended else ((), (), (), ())
        names = dict.fromkeys(name for each in metrics for name in each)
        return History(
            metrics={name: [each.get(name) for each in metrics] for name in names},
            steps_per_epoch=steps_per_epoch,
            seconds_per_epoch=list(epochs),
            training_seconds_per_epoch=list(loops),
            input_wait_seconds_per_epoch=None if None in waits else list(waits),
        )

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Starts the clock."""
        super().on_epoch_begin(epoch, logs)
        self._started_s, self._wait_s = time.monotonic(), 0.0
        self._waited.assign(0.0)

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Forgets the previous call."""
        if self._at_once > 1:
            self._call.assign(self._unset)

    def on_steps(self, count: int) -> None:
        """Adds the waiting time of a call of several steps; `watch` adds that of single ones."""
        if self._at_once > 1:
            # The first call with this many steps compiles, which is not waiting.
            steps = count if count in self._compiled else 1
            self._compiled.add(count)
            asked_s, first_s, last_s = self._call.numpy()
            # Since 1970, as `tf.timestamp`.
            self._wait_s += estimate_wait_s(asked_s, first_s, last_s, time.time(), steps)
        self._loop_s = time.monotonic() - self._started_s

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Keeps the epoch's metrics."""
        epoch_s = time.monotonic() - self._started_s
        # By the system's clock, which may be adjusted meanwhile.
        wait_s = min(max(0.0, self._wait_s + float(self._waited)), self._loop_s)
        metrics = {name: float(value) for name, value in (logs or {}).items()}
        waited = round(wait_s, 3) if self._watches else None
        self._epochs.append((metrics, round(epoch_s, 3), round(self._loop_s, 3), waited))


def estimate_wait_s(
    asked_s: float, first_s: float, last_s: float, ended_s: float, steps: int
) -> float:
    """Estimates how long a call of the model waited for its batches.

    Of several steps, each but the last one has the next batch asked for while it runs, and that
    takes no time unless the batch comes after the step's end. The last step begins when its batch
    comes, or later: so from there to the end is what a step takes, or more, and what the call took
    beyond as many steps was waiting. Where no batch came late, that is less than nothing.

    Args:
      asked_s: when the first batch was asked for.
      first_s: when it came.
      last_s: when the last batch came.
      ended_s: when the call ended.
      steps: of the call; with one, the result is exact.
    """
    later_s = (ended_s - first_s) - steps * (ended_s - last_s) if steps > 1 else 0.0
    return max(0.0, first_s - asked_s) + max(0.0, later_s)
