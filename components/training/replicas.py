"""A model on several devices that learns as on one: each step is one step on the whole batch.

Every device has a copy of the weights, a replica, and takes its part of each batch. Keras by itself
takes the mean of the replicas' means, which is the batch's mean only if all parts are of one size;
it normalises batches part by part; and it clips gradients before they are added up. Here it does
none of these. What remains is the order in which numbers are added up, and the random numbers that
layers draw: each replica draws its own.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.compiling import find_inner
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.order.batches import worker_bounds
from image_pipeline.components.tasks.segmentation import SEGMENTATION
from image_pipeline.components.tasks.task import Task
from image_pipeline.components.training.devices import open_strategy
from image_pipeline.components.training.model_check import CheckedModel, rebuild
from image_pipeline.components.views.options import ViewOptions

# How far a loss may be, of its value, from the sum of the replicas' shares.
_CLOSE = 1e-3
_IMAGES = 4


def spread(
    checked: CheckedModel,
    view: ViewOptions,
    feeding: FeedingOptions,
    training: TrainingOptions,
    num_classes: int,
    steps_per_epoch: int = 1,
) -> CheckedModel:
    """The model to train: the checked one, or with `training.strategy` a copy on all devices.

    Args:
      checked: what `build_checked_model` gave; the other arguments are those that it got.

    Returns:
      The same; or the model built once more, with a replica on each device and the same weights,
      to be trained as docs/strategies.md says.

    Raises:
      UserError: if the strategy cannot be had, or the model's loss or optimizer does not allow it.
    """
    if (strategy := open_strategy(training)) is None:
        return checked
    if find_inner(checked.model.optimizer).gradient_accumulation_steps:
        raise UserError(
            "gradient_accumulation_steps cannot be combined with training.strategy=mirrored or "
            "multi_worker: Keras cannot decide on a device whether all others take part in a step; "
            "raise feeding.batch_size instead, which several devices have the memory for, or set "
            "training.strategy=none."
        )
    shape = (view.height_px, view.width_px, view.channels)
    images = tf.zeros([_IMAGES, *shape])
    outputs = checked.model(images, training=False)
    labels, _ = checked.task.make_labels(outputs, feeding.gives_shares)
    with strategy.scope():
        model = rebuild(shape, training, num_classes, checked.task, steps_per_epoch)
        model._symbolic_build(data_batch=(images, labels))
    # Keras would build it of the mean of the replicas' first batches, which differ in size.
    model._maybe_symbolic_build = lambda **_: None
    model.set_weights(checked.model.get_weights())
    model.jit_compile = False  # XLA compiles for one device.
    _check_loss(checked.model, model, training.model or checked.task.default_model, images, labels)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = True
    _make_own_functions(model)
    _share_loss(model, checked.task)
    _add_gradients_first(model.optimizer)
    return dataclasses.replace(checked, model=model)


def share_out(strategy: tf.distribute.Strategy, make_data: Callable[..., Any]) -> Any:
    """The batches as `fit` takes them: TensorFlow, or on several machines each, takes its part.

    Args:
      strategy: the model's.
      make_data: makes batches; with several machines those of one `worker` of `workers`.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return make_data()

    def make_part(context: tf.distribute.InputContext) -> tf.data.Dataset:
        workers = context.num_input_pipelines
        data = make_data(worker=context.input_pipeline_id, workers=workers)
        return cut_batches(data, strategy.num_replicas_in_sync // workers)

    return strategy.distribute_datasets_from_function(make_part)


def cut_batches(data: tf.data.Dataset, parts: int) -> tf.data.Dataset:
    """Cuts each batch into so many, of which a machine's replicas take one each."""
    if parts == 1:
        return data

    def take_part(part: tf.Tensor, batch: Any) -> Any:
        def take(values: tf.Tensor) -> tf.Tensor:
            start, stop = worker_bounds(tf.shape(values, tf.int64)[0], part, parts)
            return values[start:stop]

        return tf.nest.map_structure(take, batch)

    numbers = tf.data.Dataset.range(parts)
    return data.flat_map(lambda *batch: numbers.map(lambda part: take_part(part, batch)))


def _check_loss(
    alone: keras.Model, mirrored: keras.Model, name: str, images: tf.Tensor, labels: Any
) -> None:
    """Tries the loss on each replica with the same images, of which each then has an equal share.

    Keras divides a mean by the number of replicas; a sum, or what a user's function has already
    made one number of, it leaves as it is.
    """
    if type(mirrored).train_step is not keras.Model.train_step:
        return  # It may do without.

    def compute_loss(model: keras.Model) -> tf.Tensor:
        return model.compute_loss(images, labels, model(images, training=False))

    @tf.function
    def add_shares() -> tf.Tensor:
        strategy = mirrored.distribute_strategy
        losses = strategy.run(compute_loss, args=(mirrored,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    whole, added = float(compute_loss(alone)), float(add_shares())
    for model in (alone, mirrored):
        model.reset_metrics()
    if not np.isclose(added, whole, rtol=_CLOSE):
        raise UserError(
            f"training.model={name} has a loss that is not the mean over its records, and so "
            "cannot be shared among devices by training.strategy=mirrored or multi_worker: compile "
            "a function that gives a value for each record, [batch], or a keras.losses.Loss with "
            "reduction='sum_over_batch_size', or set training.strategy=none."
        )


def _share_loss(model: keras.Model, task: Task) -> None:
    """Makes the losses of all replicas add up to the mean over the whole batch."""
    compute_loss = model.compute_loss

    def shared_loss(x: Any = None, y: Any = None, *others: Any, **named: Any) -> tf.Tensor:
        loss = compute_loss(x, y, *others, **named)
        if (replica := tf.distribute.get_replica_context()) is None:
            return loss
        # Of how many values the loss of this replica is the mean.
        if task is SEGMENTATION:
            count = tf.reduce_sum(tf.cast(y != record.IGNORED, tf.float32))
        else:
            count = tf.cast(tf.shape(tf.nest.flatten(y)[0])[0], tf.float32)
        total = replica.all_reduce(tf.distribute.ReduceOp.SUM, count)
        # Keras has divided it by the number of replicas, as if all had the same share.
        share = tf.math.divide_no_nan(count, total) * replica.num_replicas_in_sync
        return loss * tf.cast(tf.stop_gradient(share), loss.dtype)

    model.compute_loss = shared_loss
    if (tracker := getattr(model, "_loss_tracker", None)) is None:  # Keras's own
        return
    track = tracker.update_state

    def track_shared(loss: Any, sample_weight: Any = None) -> Any:
        replica = tf.distribute.get_replica_context()
        if replica is None or sample_weight is None:
            return track(loss, sample_weight=sample_weight)
        # A batch weighs as much as it has records; what differs is in the loss already.
        records = tf.cast(sample_weight, tf.float32)
        total = replica.all_reduce(tf.distribute.ReduceOp.SUM, records)
        return track(loss, sample_weight=total / replica.num_replicas_in_sync)

    tracker.update_state = track_shared


def _add_gradients_first(optimizer: keras.Optimizer) -> None:
    """Adds up the replicas' gradients before anything is done with them.

    So they are clipped as on one device, and mixed precision's scale sees the same everywhere.
    """
    apply = optimizer.apply

    def apply_sums(grads: Any, trainable_variables: Any = None) -> None:
        pairs = list(zip(grads, trainable_variables, strict=True))
        given = [(grad, variable) for grad, variable in pairs if grad is not None]
        replica = tf.distribute.get_replica_context()
        sums = replica.all_reduce(tf.distribute.ReduceOp.SUM, [grad for grad, _ in given])
        apply(sums, [variable for _, variable in given])

    optimizer.apply = apply_sums
    find_inner(optimizer)._all_reduce_sum_gradients = list  # done


def _make_own_functions(model: keras.Model) -> None:
    """Replaces the functions that Keras makes of a step, of which those for several steps fail.

    (They put steps into a branch, where TensorFlow feeds no keys to collective operations; Keras
    3.15, TensorFlow 2.21.) Here each step of a call is one by itself.
    """

    def make_train_function(force: bool = False) -> None:
        if model.train_function is None:
            model.train_function = _make_function(model, model.train_step)

    def make_test_function(force: bool = False) -> None:
        if model.test_function is None or force:
            model.test_function = _make_function(model, model.test_step)

    model.make_train_function, model.make_test_function = make_train_function, make_test_function


def _make_function(model: keras.Model, step: Callable) -> Callable:
    """A function of an iterator over distributed batches that makes a call's steps."""
    strategy = model.distribute_strategy

    @tf.function(reduce_retracing=True)
    def run_step(iterator: Any) -> dict[str, tf.Tensor]:
        logs = strategy.run(step, args=(next(iterator),))
        mean = tf.distribute.ReduceOp.MEAN
        return {name: strategy.reduce(mean, value, axis=None) for name, value in logs.items()}

    def run_steps(iterator: Any) -> dict[str, tf.Tensor]:
        logs = run_step(iterator)
        for _ in range(model.steps_per_execution - 1):
            try:
                logs = run_step(iterator)
            except tf.errors.OutOfRangeError:  # Evaluation's last call has fewer.
                break
        return logs

    return run_steps
