"""On which devices a model is trained: `training.strategy`."""

import functools
import logging

import tensorflow as tf

from image_pipeline.components.models.options import TrainingOptions

_LOG = logging.getLogger(__name__)


def open_strategy(training: TrainingOptions) -> tf.distribute.Strategy | None:
    """The strategy that is asked for, over the devices of this machine.

    Args:
      training: names it.

    Returns:
      One with a replica on every GPU or, if there is none, on every logical CPU; None for
      TensorFlow's default, the first GPU or else the CPU.
    """
    if training.strategy == "none":
        return None
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) == 1:
        _LOG.warning(
            "training.strategy=mirrored has one device only, %s: training takes as long as without "
            "it, and the time spent waiting for batches is not measured.",
            devices[0].name,
        )
    return _mirror(tuple(device.name for device in devices))


@functools.cache
def _mirror(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    """One for all trainings of a process: each would number its collective operations from the
    same one on, and TensorFlow then takes those of another model for the first one's."""
    return tf.distribute.MirroredStrategy(list(devices))
