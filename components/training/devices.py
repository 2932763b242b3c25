"""On which devices a model is trained: `training.strategy`."""

import contextlib
import functools
import logging
import re
import signal
import threading
from collections.abc import Iterator

import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import describe_error
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training.cluster import Cluster, meet, read_cluster

_LOG = logging.getLogger(__name__)
# What TensorFlow says when it gives up what machines compute together.
_LOST = "ollective ops is aborted"
_TASK = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")


def open_strategy(training: TrainingOptions) -> tf.distribute.Strategy | None:
    """The strategy that is asked for, over the devices of this machine, or of several.

    Several must be asked for before TensorFlow does anything else in this process.

    Args:
      training: names it.

    Returns:
      One with a replica on every GPU or, if there is none, on every logical CPU; None for
      TensorFlow's default, the first GPU or else the CPU.

    Raises:
      UserError: see `find_cluster`, `cluster.meet` and `check_empty_parts`.
    """
    if (cluster := find_cluster(training)) is not None:
        return _join(cluster)
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


def find_cluster(training: TrainingOptions) -> Cluster | None:
    """The machines that train together; None if this one trains alone.

    Raises:
      UserError: if TF_CONFIG and `training.strategy` do not say the same, or see `read_cluster`.
    """
    cluster, strategy = read_cluster(), training.strategy
    if cluster is None and strategy == "multi_worker":
        raise UserError(
            "training.strategy=multi_worker trains on several machines, but the environment "
            "variable TF_CONFIG names none but this one; set it on each of them, as "
            "docs/strategies.md says, or set training.strategy=mirrored."
        )
    if cluster is not None and strategy != "multi_worker":
        raise UserError(
            f"TF_CONFIG names {cluster.size} machines, but training runs on the devices of one "
            f"with training.strategy={strategy}: each would train a model by itself; set "
            "training.strategy=multi_worker, or unset TF_CONFIG."
        )
    return cluster


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
            "training.strategy=mirrored or multi_worker cannot use several CPUs with TensorFlow's "
            "oneDNN, whose convolutions fail on a device that an epoch's last batch has no record "
            "for; set the environment variable TF_ENABLE_ONEDNN_OPTS=0, or training.strategy=none."
        )


@contextlib.contextmanager
def tell_lost(cluster: Cluster | None) -> Iterator[None]:
    """Says in one sentence that another machine has ended, which ends this one's training, too."""
    try:
        yield
    except tf.errors.OpError as error:
        if cluster is None or _LOST not in str(error):
            raise
        named = {f"{kind} {number}" for kind, number in _TASK.findall(str(error))}
        of = f" ({', '.join(sorted(named))} of TF_CONFIG)" if named else ""
        raise UserError(
            f"Another machine{of} has ended or is not to be reached, so worker {cluster.number} of "
            f"{cluster.size} ends, too: a step needs all of them. See its log for why, and start "
            "all machines again: they go on from the last checkpoint, if training.checkpoint_dir "
            "is set."
        ) from error


@functools.cache
def _join(cluster: Cluster) -> tf.distribute.Strategy:
    """One for all trainings of a process, as `_mirror`'s."""
    meet(cluster)
    try:
        with _keep_sigterm():
            strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except (RuntimeError, tf.errors.OpError) as error:
        raise UserError(
            f"TensorFlow could not connect the machines of TF_CONFIG ({describe_error(error)}); "
            "start all of them again, each in a process that has not used TensorFlow before."
        ) from error
    if not tf.config.list_physical_devices("GPU"):
        check_empty_parts()
    return strategy


@contextlib.contextmanager
def _keep_sigterm() -> Iterator[None]:
    """Lets SIGTERM do afterwards what it did before: TensorFlow takes it, and goes on training."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


@functools.cache
def _mirror(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    """One for all trainings of a process: each would number its collective operations from the
    same one on, and TensorFlow then takes those of another model for the first one's."""
    return tf.distribute.MirroredStrategy(list(devices))
