"""TFX's Trainer: from shards and a transform graph to a trained, exported model."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from image_pipeline.components import progress
from image_pipeline.components.feeding.input_fn import input_fn, steps_per_epoch
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Mode
from image_pipeline.components.models.compiling import set_length
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.order.batches import Position
from image_pipeline.components.tasks.choose_task import find_task, name_model
from image_pipeline.components.tasks.refusals import check_training
from image_pipeline.components.tasks.tagging import TAGGING
from image_pipeline.components.tasks.task import Task
from image_pipeline.components.training.averaging import plan_averaging
from image_pipeline.components.training.checkpoint import Checkpoints, fit_from, resume
from image_pipeline.components.training.class_weights import (
    check_tag_loss,
    read_class_weights,
    weigh_records,
)
from image_pipeline.components.training.clocks import EpochClock, StepCounter
from image_pipeline.components.training.cluster import Cluster
from image_pipeline.components.training.devices import (
    check_same_run,
    check_same_start,
    find_cluster,
    open_strategy,
    tell_lost,
    wait_for_all,
)
from image_pipeline.components.training.early_figures import EarlyFigures
from image_pipeline.components.training.early_stopping import EarlyStopping
from image_pipeline.components.training.history import write_history
from image_pipeline.components.training.model_check import (
    CheckedModel,
    build_checked_model,
    notice_loss,
)
from image_pipeline.components.training.non_finite import StopAtNonFinite, name_records
from image_pipeline.components.training.phases import Phases
from image_pipeline.components.training.pixel_check import check_pixels, notice_graph
from image_pipeline.components.training.profile import plan_profile
from image_pipeline.components.training.replicas import copy_back, share_out, spread
from image_pipeline.components.training.serving import export_model
from image_pipeline.components.training.start import choose_start, name_start
from image_pipeline.components.training.steps_per_execution import WholeEpochs, hide_length
from image_pipeline.components.training.unknown import count_unknown, leave_out_unknown
from image_pipeline.components.views.options import ViewOptions

_LOG = logging.getLogger(__name__)


def run_fn(fn_args: Any) -> None:
    """Trains the model and exports it; TFX's Trainer calls this by its dotted path.

    How long to train is `training.epochs`; TFX's `train_args` and `eval_args` are not read.

    Args:
      fn_args: TFX's FnArgs. Read are `train_files`, `eval_files`, `transform_graph_path`,
        `serving_model_dir`, `model_run_dir`, `base_model` (for `training.warm_start`), and
        `custom_config`, which holds the options as plain dicts: {"view": {...}, "feeding": {...},
        "training": {...}}; what is left out is default.

    Of several machines (`training.strategy`), one writes the model and what training reports.

    Raises:
      UserError: if a split has no batch, options exclude each other, or the model cannot be
        trained and exported; or another machine has ended.
    """
    training = TrainingOptions(**(fn_args.custom_config or {}).get("training", {}))
    with tell_lost(cluster := find_cluster(training)):
        # Machines meet before TensorFlow does anything.
        together = None if cluster is None else open_strategy(training)
        _train(_read_run(fn_args, cluster or Cluster()), together)


def _train(run: "_Run", together: tf.distribute.Strategy | None) -> None:
    """Trains, and exports on the chief."""
    check_pixels(run.training.model or "", run.graph_dir, run.view)
    shared = (run.view, run.feeding, run.training, len(run.class_names))
    checked = build_checked_model(
        *shared, task=run.task, class_names=run.class_names, steps_per_epoch=run.steps
    )
    noticed = [*notice_loss(checked), *notice_graph(checked.model, run.graph_dir, run.view)]
    for told in noticed:
        _LOG.warning(told)
    _check_outputs(run, checked)
    check_same_run(together, (run.view, run.feeding, run.training), run.class_names, run.steps)
    trained = spread(checked, *shared, steps_per_epoch=run.steps)
    _fit(run, trained, noticed)
    if trained is not checked:
        copy_back(trained.model, checked.model)
    if run.cluster.is_chief:
        folder = run.fn_args.serving_model_dir
        export_model(
            *(checked.model, run.graph_dir, run.view, run.class_names, folder),
            *(checked.gives_logits, run.task),
        )
    wait_for_all(together)


@dataclasses.dataclass(frozen=True)
class _Run:
    """One training: what TFX and the user ask for.

    Attributes:
      fn_args: TFX's FnArgs.
      cluster: the machines that train together.
      task: what the model learns.
      view, feeding, training: the options.
      graph_dir: the transform graph's folder.
      class_names: of the model's values, in their order.
      steps: batches per epoch.
    """

    fn_args: Any
    cluster: Cluster
    task: Task
    view: ViewOptions
    feeding: FeedingOptions
    training: TrainingOptions
    graph_dir: str
    class_names: list[str]
    steps: int


def _read_run(fn_args: Any, cluster: Cluster) -> _Run:
    config: Mapping[str, Any] = fn_args.custom_config or {}
    graph_dir = fn_args.transform_graph_path
    task = find_task(graph_dir)
    feeding = FeedingOptions(**config.get("feeding", {}))
    training = name_model(TrainingOptions(**config.get("training", {})), task)
    check_training(task.label, feeding, training)
    return _Run(
        fn_args=fn_args,
        cluster=cluster,
        task=task,
        view=ViewOptions(**config.get("view", {})),
        feeding=feeding,
        training=choose_start(training, getattr(fn_args, "base_model", None)),
        graph_dir=graph_dir,
        class_names=task.read_class_names(graph_dir),
        steps=steps_per_epoch(fn_args.train_files, feeding, "train"),
    )


def _check_outputs(run: _Run, checked: CheckedModel) -> None:
    """Refuses a loss that tags' weights cannot weigh, and says if something is added."""
    name = run.training.model or ""
    if run.task is TAGGING and run.training.class_weights != "none":
        check_tag_loss(checked.model, len(run.class_names), name)
    if checked.gives_logits:
        _LOG.warning(
            "training.model=%s gives logits; the exported model adds a %s.",
            *(name, run.task.activation),
        )


def _fit(run: _Run, checked: CheckedModel, noticed: Sequence[str]) -> None:
    """Trains the model from where a checkpoint left it, and writes what training reported."""
    training, model, steps = run.training, checked.model, run.steps
    strategy = model.distribute_strategy
    unknown = _leave_out_unknown(run, model)
    phases = Phases(model, training, steps)
    set_length(model, training.epochs, steps)
    stopping = EarlyStopping(model, training)
    clock = EpochClock(model)
    start, checkpoints = resume(run.fn_args, model, training, steps, clock, stopping.state)
    check_same_start(strategy, start, model, training.checkpoint_dir)
    _build_optimizer(model)
    # The loss is checked before a checkpoint is stored, which holds what `stopping` knows.
    stop = _watch_loss(run, start, checkpoints)
    callbacks = [WholeEpochs(), stop, *plan_averaging(model), clock, StepCounter(), stopping]
    make_eval_data = functools.partial(_make_eval_data, run)
    if run.training.strategy == "none":  # Several machines would have to evaluate together.
        callbacks.append(EarlyFigures(make_eval_data, training.epochs, steps, start, clock))
    progress.begin("steps", training.epochs * steps, done=start.epoch * steps + start.step)
    with contextlib.ExitStack() as traces:
        profile = plan_profile(run.fn_args.model_run_dir, training, start.epoch, traces)
        written = [*checkpoints, *profile] if run.cluster.is_chief else []
        fit_from(
            start,
            model,
            functools.partial(_make_timed_data, run, model, clock),
            training.epochs,
            steps,
            phases,
            lambda: stopping.is_over,
            validation_data=share_out(strategy, make_eval_data),
            shuffle=False,  # the data already is
            callbacks=[*callbacks, *written],
            verbose=2,  # a line per epoch: logs are read afterwards
        )
    stopping.finish()
    if not run.cluster.is_chief:
        return
    history = dataclasses.replace(
        clock.history(steps),
        unknown_records=unknown,
        softmax_added=checked.gives_logits,
        started_from=name_start(training),
        best_epoch=stopping.best_epoch,
        noticed=noticed,
        random_steps=[step.model_dump(mode="json") for step in run.feeding.steps],
    )
    write_history(run.fn_args.model_run_dir, history)
    for trace in profile:
        trace.write_summary()


def _build_optimizer(model: keras.Model) -> None:
    """Makes the optimizer's variables: made within the first step, they have it traced twice.

    A training step of the user's own may give the optimizer other weights than the model's.
    """
    if type(model).train_step is keras.Model.train_step and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _watch_loss(run: _Run, start: Position, checkpoints: Sequence[Checkpoints]) -> StopAtNonFinite:
    """Ends training at a loss that is not a number, with the records of its step."""
    name_batches = functools.partial(
        name_records, run.fn_args.train_files, run.view, run.feeding, run.training.seed
    )
    return StopAtNonFinite(
        start, run.steps, name_batches, *(each.find_latest for each in checkpoints)
    )


def _leave_out_unknown(run: _Run, model: keras.Model) -> dict[str, int | None]:
    """Records of each split without a class in the vocabulary; None without an index.

    The model is made to leave them out, if there are any.
    """
    if not run.task.leaves_out_unknown:
        return {}
    shared = run.feeding, run.graph_dir
    unknown = {
        "train": count_unknown(run.fn_args.train_files, *shared, "train"),
        "eval": count_unknown(run.fn_args.eval_files, *shared, "eval"),
    }
    if any(count != 0 for count in unknown.values()):
        leave_out_unknown(model)
    return unknown


def _make_timed_data(run: _Run, model: keras.Model, clock: EpochClock, **part: Any) -> Any:
    """The batches of a part of training, as `fit` takes them."""

    def make_data(**share: int) -> tf.data.Dataset:
        data = clock.watch(_make_train_data(run, part | share))
        return data if model.steps_per_execution == 1 else hide_length(data)

    return share_out(model.distribute_strategy, make_data)


def _make_train_data(run: _Run, part: Mapping[str, Any]) -> tf.data.Dataset:
    """The batches of a part of training, as `input_fn` counts it, with the records' weights."""
    data = _read_batches(run, run.fn_args.train_files, "train", seed=run.training.seed, **part)
    if run.training.class_weights == "none":
        return data
    weights = read_class_weights(run.graph_dir, run.class_names)
    return weigh_records(data, weights, of_tags=run.task is TAGGING)


def _make_eval_data(run: _Run, **share: int) -> tf.data.Dataset:
    steps = steps_per_epoch(run.fn_args.eval_files, run.feeding, "eval")
    data = _read_batches(run, run.fn_args.eval_files, "eval", **share)
    if run.feeding.bad_records == "skip":  # There may be fewer batches.
        return data
    # Keras warns of data that runs out unless it knows where they end.
    return data.apply(tf.data.experimental.assert_cardinality(steps))


def _read_batches(run: _Run, shards: Sequence[str], mode: Mode, **part: Any) -> tf.data.Dataset:
    return input_fn(
        shards,
        mode=mode,
        view=run.view,
        feeding=run.feeding,
        transform_graph_dir=run.graph_dir,
        again="same",  # `part` sets the position; Keras may look at the data first.
        **part,
    )
