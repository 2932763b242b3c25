"""On which devices a model is trained: `training.strategy`."""

import functools
import json
import logging
import os

import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.options import TrainingOptions

_LOG = logging.getLogger(__name__)


def open_strategy(training: TrainingOptions) -> tf.distribute.Strategy | None:
    """The strategy that is asked for, over the devices of this machine.

    Args:
      training: names it.

    Returns:
      One with a replica on every GPU or, if there is none, on every logical CPU; None for
      TensorFlow's default, the first GPU or else the CPU.

    Raises:
      UserError: if TF_CONFIG names several machines, or see `check_empty_parts`.
    """
    check_no_cluster()
    if training.strategy == "none":
        return None
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) == 1:
        _LOG.warning(
            "training.strategy=mirrored has one device only, %s: training takes as long as without "
            "it, and the time spent waiting for batches is not measured.",
            devices[0].name,
        )
    elif devices[0].device_type == "CPU":
        check_empty_parts()
    return _mirror(tuple(device.name for device in devices))


def check_no_cluster() -> None:
    """Refuses TF_CONFIG with several machines, each of which would train a model by itself.

    (What it would take to train one together: docs/strategies.md.)

    Raises:
      UserError: if it names several.
    """
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster") or {}
        machines = sum(len(addresses) for addresses in cluster.values())
    except (ValueError, AttributeError, TypeError) as error:
        raise UserError(
            f"TF_CONFIG must be a JSON object with a cluster, got {os.environ['TF_CONFIG']!r}; "
            "unset it: training runs on one machine."
        ) from error
    if machines > 1:
        raise UserError(
            f"TF_CONFIG names {machines} machines, but training runs on the devices of one: "
            "each would train a model by itself; unset TF_CONFIG, and set "
            "training.strategy=mirrored to use all GPUs of this machine."
        )


def check_empty_parts() -> None:
    """Refuses CPUs whose convolutions give no records another shape than some.

    An epoch's last batch can leave a device without any. TensorFlow 2.21's oneDNN then gives the
    input's shape, and a later layer, or what devices exchange, fails in the midst of training.

    Raises:
      UserError: if it is so.
    """
    nothing = tf.nn.conv2d(tf.zeros([0, 1, 1, 1]), tf.zeros([1, 1, 1, 2]), 1, "SAME")
    if nothing.shape[-1] != 2:
        raise UserError(
            "training.strategy=mirrored cannot use several CPUs with TensorFlow's oneDNN, whose "
            "convolutions fail on a device that an epoch's last batch has no record for; set the "
            "environment variable TF_ENABLE_ONEDNN_OPTS=0, or training.strategy=none."
        )


@functools.cache
def _mirror(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    """One for all trainings of a process: each would number its collective operations from the
    same one on, and TensorFlow then takes those of another model for the first one's."""
    return tf.distribute.MirroredStrategy(list(devices))
