"""TFX's Trainer: from shards and a transform graph to a trained, exported model."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from image_pipeline.components import files, progress
from image_pipeline.components.feeding.input_fn import input_fn, steps_per_epoch
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Mode
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.models.schedule import set_length
from image_pipeline.components.tasks.choose_task import find_task, name_model
from image_pipeline.components.tasks.tagging import TAGGING
from image_pipeline.components.tasks.task import Task
from image_pipeline.components.training.averaging import plan_averaging
from image_pipeline.components.training.class_weights import (
    check_tag_loss,
    read_class_weights,
    weigh_records,
)
from image_pipeline.components.training.clocks import EpochClock, StepCounter
from image_pipeline.components.training.early_stopping import EarlyStopping
from image_pipeline.components.training.history import HISTORY_FILE, History
from image_pipeline.components.training.model_check import CheckedModel, build_checked_model
from image_pipeline.components.training.non_finite import StopAtNonFinite, name_records
from image_pipeline.components.training.phases import Phases
from image_pipeline.components.training.pixel_check import check_pixels
from image_pipeline.components.training.replicas import copy_back, spread
from image_pipeline.components.training.resume import fit_from, resume
from image_pipeline.components.training.serving import export_model
from image_pipeline.components.training.start import choose_start, name_start
from image_pipeline.components.training.step_profile import plan_profile
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

    Raises:
      UserError: if a split has no batch, options exclude each other, or the model cannot be
        trained and exported.
    """
    graph_dir, model_dir = fn_args.transform_graph_path, fn_args.serving_model_dir
    task = find_task(graph_dir)
    options = _read_options(fn_args.custom_config or {}, task)
    training = choose_start(options.training, getattr(fn_args, "base_model", None))
    options = dataclasses.replace(options, training=training)
    check_pixels(options.training.model or "", graph_dir, options.view)
    class_names = task.read_class_names(graph_dir)
    steps = steps_per_epoch(fn_args.train_files, options.feeding, "train")
    checked = build_checked_model(
        *(options.view, options.feeding, training, len(class_names)),
        task=task,
        class_names=class_names,
        steps_per_epoch=steps,
    )
    if task is TAGGING and options.training.class_weights != "none":
        check_tag_loss(checked.model, len(class_names), options.training.model or "")
    if checked.gives_logits:
        _LOG.warning(
            "training.model=%s gives logits; the exported model adds a %s.",
            *(options.training.model, task.activation),
        )
    trained = spread(
        *(checked, options.view, options.feeding, training, len(class_names)), steps_per_epoch=steps
    )
    _fit(fn_args, options, class_names, trained)
    if trained is not checked:
        copy_back(trained.model, checked.model)
    export_model(
        checked.model, graph_dir, options.view, class_names, model_dir, checked.gives_logits, task
    )


@dataclasses.dataclass(frozen=True)
class _AllOptions:
    view: ViewOptions
    feeding: FeedingOptions
    training: TrainingOptions


def _read_options(config: Mapping[str, Any], task: Task) -> _AllOptions:
    options = _AllOptions(
        ViewOptions(**config.get("view", {})),
        FeedingOptions(**config.get("feeding", {})),
        name_model(TrainingOptions(**config.get("training", {})), task),
    )
    task.check_options(options.feeding, options.training)
    return options


def _fit(fn_args: Any, options: _AllOptions, class_names: list[str], checked: CheckedModel) -> None:
    """Trains the model from where a checkpoint left it, and writes what training reported."""
    training, model = options.training, checked.model
    unknown = _count_unknown(fn_args, options) if checked.task.leaves_out_unknown else {}
    if any(count != 0 for count in unknown.values()):
        leave_out_unknown(model)
    steps = steps_per_epoch(fn_args.train_files, options.feeding, "train")
    phases = Phases(model, training, steps)
    set_length(model, training.epochs, steps)
    stopping = EarlyStopping(model, training)
    start, checkpoints = resume(fn_args, model, training, steps, stopping.state)
    clock = EpochClock(model)
    name_batches = functools.partial(
        name_records, fn_args.train_files, options.view, options.feeding, training.seed
    )
    latest = [each.find_latest for each in checkpoints]
    stop = StopAtNonFinite(start, steps, name_batches, *latest)

    def make_train_data(**part: Any) -> tf.data.Dataset:
        data = clock.watch(_make_train_data(fn_args, options, class_names, part))
        return data if model.steps_per_execution == 1 else hide_length(data)

    progress.begin("steps", training.epochs * steps, done=start.epoch * steps + start.step)
    with contextlib.ExitStack() as traces:
        profile = plan_profile(fn_args.model_run_dir, training, start.epoch, traces)
        metrics = fit_from(
            start,
            model,
            make_train_data,
            training.epochs,
            steps,
            phases,
            lambda: stopping.is_over,
            validation_data=_make_eval_data(fn_args, options),
            shuffle=False,  # the data already is
            # The loss is checked before a checkpoint is stored, which holds what `stopping` knows.
            callbacks=[
                *(WholeEpochs(), stop, *plan_averaging(model), clock, StepCounter(), stopping),
                *(*checkpoints, *profile),
            ],
            verbose=2,  # a line per epoch: logs are read afterwards
        )
    stopping.finish()
    history = History(
        metrics={name: [float(value) for value in values] for name, values in metrics.items()},
        steps_per_epoch=steps,
        unknown_records=unknown,
        softmax_added=checked.gives_logits,
        started_from=name_start(training),
        best_epoch=stopping.best_epoch,
        **clock.times(),
    )
    write_history(fn_args.model_run_dir, history)
    for trace in profile:
        trace.write_summary()


def _count_unknown(fn_args: Any, options: _AllOptions) -> dict[str, int | None]:
    """Records of each split without a class in the vocabulary; None without an index."""
    graph_dir, feeding = fn_args.transform_graph_path, options.feeding
    return {
        "train": count_unknown(fn_args.train_files, feeding, graph_dir, "train"),
        "eval": count_unknown(fn_args.eval_files, feeding, graph_dir, "eval"),
    }


def _make_train_data(
    fn_args: Any, options: _AllOptions, class_names: list[str], part: Mapping[str, Any]
) -> tf.data.Dataset:
    """The batches of a part of training, as `input_fn` counts it, with the records' weights."""
    training = options.training
    data = _read_batches(fn_args, fn_args.train_files, options, "train", seed=training.seed, **part)
    if training.class_weights == "none":
        return data
    return weigh_records(data, read_class_weights(fn_args.transform_graph_path, class_names))


def _make_eval_data(fn_args: Any, options: _AllOptions) -> tf.data.Dataset:
    steps = steps_per_epoch(fn_args.eval_files, options.feeding, "eval")
    data = _read_batches(fn_args, fn_args.eval_files, options, "eval")
    if options.feeding.bad_records == "skip":  # There may be fewer batches.
        return data
    # Keras warns of data that runs out unless it knows where they end.
    return data.apply(tf.data.experimental.assert_cardinality(steps))


def _read_batches(
    fn_args: Any, shards: Sequence[str], options: _AllOptions, mode: Mode, **part: Any
) -> tf.data.Dataset:
    return input_fn(
        shards,
        mode=mode,
        view=options.view,
        feeding=options.feeding,
        transform_graph_dir=fn_args.transform_graph_path,
        again="same",  # `part` sets the position; Keras may look at the data first.
        **part,
    )


def write_history(folder: str, history: History) -> None:
    """Writes what training reported to a folder, which is created if needed."""
    files.write_file(files.join(folder, HISTORY_FILE), history.to_text().encode())
