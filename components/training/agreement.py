"""What machines that train together must have alike, lest they learn different models in silence.

With one machine, or none of its own strategy, nothing is done.
"""

import hashlib
from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.order.batches import Position
from image_pipeline.components.views.options import ViewOptions

# They may have another name on each machine.
_PATHS = {"checkpoint_dir", "resume_from", "weights"}


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
            "read the same data set and graph; copy them anew, or name a shared folder.": (
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
