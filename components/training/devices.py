"""On which devices a model is trained: `training.strategy`.

Machines that train together must have some things alike, lest they learn different models in
silence.
"""

import contextlib
import functools
import hashlib
import logging
import re
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.messages import describe_error
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.order.batches import Position
from image_pipeline.components.training.cluster import Cluster, meet, read_cluster
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)
# What TensorFlow says when it gives up what machines compute together.
_LOST = "ollective ops is aborted"
# They may have another name on each machine.
_PATHS = {"checkpoint_dir", "resume_from", "weights"}
_TASK = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")


def open_strategy(training: TrainingOptions) -> tf.distribute.Strategy | None:
    """The strategy that is asked for, over the devices of this machine, or of several.

    Several must be asked for before TensorFlow does anything else in this process.

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


def check_same_run(
    strategy: tf.distribute.Strategy | None,
    options: tuple[ViewOptions, FeedingOptions, TrainingOptions],
    class_names: Sequence[str],
    steps_per_epoch: int,
) -> None:
    """Compares what machines were given, before they wait for each other's first weights.

    Raises:
      UserError: on all of them, if something differs.
    """
    texts = [each.model_dump_json(exclude=_PATHS) for each in options]
    _check_same(
        strategy,
        {
            "have the same options of view, feeding and training; give all the same --config.": (
                "".join(texts).encode()
            ),
            "read the same data set and graph; copy them again, or name a shared folder.": (
                f"{steps_per_epoch} {list(class_names)}".encode()
            ),
        },
    )


def check_same_start(
    strategy: tf.distribute.Strategy | None,
    start: Position,
    model: keras.Model,
    checkpoint_dir: str | None,
) -> None:
    """Compares where machines begin, which differs if each has a folder of checkpoints.

    Raises:
      UserError: on all of them, if something differs.
    """
    if not _is_of_several(strategy):
        return
    weights = hashlib.sha256()
    for weight in model.get_weights():
        weights.update(weight.tobytes())
    _check_same(
        strategy,
        {
            f"go on from the same checkpoint; training.checkpoint_dir={checkpoint_dir} must be one "
            "folder that all of them read, and data set and graph have the same paths.": (
                start.to_json().encode()
            ),
            "begin with the same weights; give all of them the same training.weights, and let "
            "training.model draw none but by Keras's seed.": weights.digest(),
        },
    )


def wait_for_all(strategy: tf.distribute.Strategy | None) -> None:
    """Waits until all machines have come here: one that ends earlier would end the others."""
    _check_same(strategy, {"come to the end.": b""})


def _check_same(strategy: tf.distribute.Strategy | None, facts: Mapping[str, bytes]) -> None:
    """Compares facts; each is named by the sentence's end that says what must be."""
    if strategy is None or not _is_of_several(strategy):
        return
    digests = [int.from_bytes(hashlib.sha256(fact).digest()[:7]) for fact in facts.values()]
    rows = _gather(strategy, tf.constant([digests], tf.int64)).numpy()
    for sentence, column in zip(facts, rows.T, strict=True):
        if (column != column[0]).any():
            raise UserError(f"All machines of TF_CONFIG must {sentence}")


def _is_of_several(strategy: tf.distribute.Strategy | None) -> bool:
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


@tf.function(autograph=False)
def _gather(strategy: tf.distribute.Strategy, row: tf.Tensor) -> tf.Tensor:
    """What all machines give, row by row."""

    def give() -> tf.Tensor:
        own = tf.identity(row)  # on the replica's device
        return tf.distribute.get_replica_context().all_gather(own, axis=0)

    return strategy.experimental_local_results(strategy.run(give))[0]
