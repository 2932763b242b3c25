"""TFX's Trainer: from shards and a transform graph to a trained, exported model.

`run_fn` is the whole way; what it calls is explained where it is.
"""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from image_pipeline.components import progress
from image_pipeline.components.feeding.certificate import certify
from image_pipeline.components.feeding.input_fn import input_fn, steps_per_epoch
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.records import match_files
from image_pipeline.components.models.compiling import set_length
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.rules import check
from image_pipeline.components.tasks.choose_task import find_task, name_model
from image_pipeline.components.tasks.image_tasks import TAGGING
from image_pipeline.components.tasks.rules import TRAINING
from image_pipeline.components.training.devices import (
    check_same_run,
    check_same_start,
    find_cluster,
    open_strategy,
    tell_lost,
    wait_for_all,
)
from image_pipeline.components.training.early_metrics import EarlyMetrics
from image_pipeline.components.training.early_stopping import EarlyStopping, plan_averaging
from image_pipeline.components.training.epoch_clock import EpochClock
from image_pipeline.components.training.history import write_history
from image_pipeline.components.training.model_check import build_checked_model, notice_loss
from image_pipeline.components.training.non_finite import StopAtNonFinite, name_records
from image_pipeline.components.training.pixel_check import check_pixels, notice_graph
from image_pipeline.components.training.profile import plan_profile
from image_pipeline.components.training.recipe import Phases, choose_start, name_start
from image_pipeline.components.training.replicas import share_out, spread
from image_pipeline.components.training.resume import resume, split_epochs
from image_pipeline.components.training.serving import export_model
from image_pipeline.components.training.steps_per_execution import (
    StepCounter,
    WholeEpochs,
    hide_length,
)
from image_pipeline.components.training.unknown import (
    check_tag_loss,
    count_unknown,
    leave_out_unknown,
    read_class_weights,
    weigh_records,
)
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
    config: Mapping[str, Any] = fn_args.custom_config or {}
    training = TrainingOptions(**config.get("training", {}))
    with tell_lost(cluster := find_cluster(training)):
        # Machines meet before TensorFlow does anything.
        together = None if cluster is None else open_strategy(training)
        is_chief = cluster is None or cluster.is_chief

        # What is learned, from what, and from which weights on.
        graph_dir = fn_args.transform_graph_path
        task = find_task(graph_dir)
        view = ViewOptions(**config.get("view", {}))
        feeding = FeedingOptions(**config.get("feeding", {}))
        training = name_model(training, task)
        check(TRAINING, labels=task.label, feeding=feeding, training=training)
        training = choose_start(training, getattr(fn_args, "base_model", None))
        class_names = task.read_class_names(graph_dir)
        steps = steps_per_epoch(fn_args.train_files, feeding, "train")
        name, is_weighed = training.model or "", training.class_weights != "none"

        # The model is built on one device, and checked from its first step to its export: what is
        # wrong with it is reported now, not after hours of training.
        check_pixels(name, graph_dir, view)
        shared = (view, feeding, training, len(class_names))
        checked = build_checked_model(
            *shared, task=task, class_names=class_names, steps_per_epoch=steps
        )
        noticed = [*notice_loss(checked), *notice_graph(checked.model, graph_dir, view)]
        for sentence in noticed:
            _LOG.warning(sentence)
        if task is TAGGING and is_weighed:
            check_tag_loss(checked.model, len(class_names), name)
        if checked.gives_logits:
            _LOG.warning(
                "training.model=%s gives logits; the exported model adds a %s.",
                *(name, task.activation),
            )

        # Machines must train the same, or each would wait for the other's weights. With a strategy,
        # what is trained is a copy of the model on every device.
        check_same_run(together, (view, feeding, training), class_names, steps)
        trained = spread(checked, *shared, steps_per_epoch=steps)
        model, strategy = trained.model, trained.model.distribute_strategy

        # Records without a class count nowhere, if there are any. None: no index tells.
        unknown: dict[str, int | None] = {}
        if task.leaves_out_unknown:
            unknown = {
                "train": count_unknown(fn_args.train_files, feeding, graph_dir, "train"),
                "eval": count_unknown(fn_args.eval_files, feeding, graph_dir, "eval"),
            }
        if any(count != 0 for count in unknown.values()):
            leave_out_unknown(model)

        # All that a checkpoint holds must exist before one is restored.
        phases = Phases(model, training, steps)
        set_length(model, training.epochs, steps)
        stopping, clock = EarlyStopping(model, training), EpochClock(model)
        fed = certify(match_files(fn_args.train_files), view, feeding, training.seed, steps)
        start, checkpoints, fed = resume(
            fn_args, model, training, steps, clock, stopping.state, fed
        )
        check_same_start(strategy, start, model, training.checkpoint_dir)
        # Made within the first step, the optimizer's variables have it traced twice. A training
        # step of the user's own may give the optimizer other weights than the model's.
        if type(model).train_step is keras.Model.train_step and not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)

        read = functools.partial(
            input_fn,
            view=view,
            feeding=feeding,
            transform_graph_dir=graph_dir,
            again="same",  # The part sets the position; Keras may look at the data first.
        )
        weights = read_class_weights(graph_dir, class_names) if is_weighed else None

        def make_train_data(**part: int) -> tf.data.Dataset:
            data = read(fn_args.train_files, mode="train", seed=training.seed, **part)
            if weights is not None:
                data = weigh_records(data, weights, of_tags=task is TAGGING)
            data = clock.watch(data)
            return data if model.steps_per_execution == 1 else hide_length(data)

        def make_eval_data(**share: int) -> tf.data.Dataset:
            count = steps_per_epoch(fn_args.eval_files, feeding, "eval")
            data = read(fn_args.eval_files, mode="eval", **share)
            if feeding.bad_records == "skip":  # There may be fewer batches.
                return data
            # Keras warns of data that runs out unless it knows where they end.
            return data.apply(tf.data.experimental.assert_cardinality(count))

        # In this order: the loss is checked before a checkpoint is stored, which holds what
        # `clock` and `stopping` know of the epoch.
        name_batches = functools.partial(
            name_records, fn_args.train_files, view, feeding, training.seed
        )
        find_checkpoint = [each.find_latest for each in checkpoints]
        callbacks: list[keras.callbacks.Callback] = [
            WholeEpochs(),
            StopAtNonFinite(start, steps, name_batches, *find_checkpoint),
            *plan_averaging(model),
            clock,
            StepCounter(),
            stopping,
        ]
        if training.strategy == "none":  # Several machines would have to evaluate together.
            callbacks.append(EarlyMetrics(make_eval_data, training.epochs, steps, start, clock))
        progress.begin("steps", training.epochs * steps, done=start.epoch * steps + start.step)
        with contextlib.ExitStack() as traces:  # Ends a trace that an error leaves open.
            profile = plan_profile(fn_args.model_run_dir, training, start.epoch, traces)
            if is_chief:
                callbacks += [*checkpoints, *profile]
            eval_data = share_out(strategy, make_eval_data)
            # The rest of an epoch that was interrupted, then whole ones up to the next phase.
            for epoch, step, count in split_epochs(start, training.epochs, phases.boundary):
                if stopping.is_over:
                    break
                phases.enter(epoch, step)
                part = {"first_epoch": epoch, "first_step": step, "epochs": count}
                model.fit(
                    # One data set for all epochs, so that it is traced once, not once per epoch.
                    share_out(strategy, functools.partial(make_train_data, **part)),
                    initial_epoch=epoch,
                    epochs=epoch + count,
                    steps_per_epoch=steps - step,
                    validation_data=eval_data,
                    shuffle=False,  # The data already is.
                    callbacks=callbacks,
                    verbose=2,  # A line per epoch: logs are read afterwards.
                )
        stopping.finish()  # The best weights, or the average, are what is exported.
        if trained is not checked:  # What replicas learned is exported from one device.
            checked.model.set_weights(model.get_weights())

        if is_chief:
            history = dataclasses.replace(
                clock.history(steps),
                unknown_records=unknown,
                softmax_added=trained.gives_logits,
                started_from=name_start(training),
                best_epoch=stopping.best_epoch,
                noticed=noticed,
                random_steps=[each.model_dump(mode="json") for each in feeding.steps],
            )
            write_history(fn_args.model_run_dir, history)
            if fed is not None:  # Of the model that is exported, which may be the best epoch's.
                best = stopping.best_epoch if training.restore_best_weights else None
                fed = fed.until(history.epochs if best is None else best + 1, 0)
            for trace in profile:
                trace.write_summary()
            export_model(
                *(checked.model, graph_dir, view, class_names, fn_args.serving_model_dir),
                *(checked.gives_logits, task, fed),
            )
        wait_for_all(together)
