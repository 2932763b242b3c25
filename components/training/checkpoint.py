"""Checkpoints of training, from the latest of which it goes on as if it had never stopped.

One has the model, its optimizer, and the position in the data.
The position is under 200 bytes, because the order of the data is a function of (seed, epoch, step):
no state of the input pipeline is stored, and any number of workers can resume from it.
"""

import dataclasses
import logging
import os
from typing import Any

import keras
import tensorflow as tf

from image_pipeline.components import files
from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.feeding.certificate import Certificate, write_certificate
from image_pipeline.components.json_files import read_json
from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.components.messages import describe_error
from image_pipeline.components.models.compiling import find_inner
from image_pipeline.components.order.batches import POSITION_FILE, Position
from image_pipeline.components.training.epoch_clock import EpochClock
from image_pipeline.components.training.history import write_history
from image_pipeline.components.training.non_finite import are_finite
from image_pipeline.components.training.steps_per_execution import StepsCallback
from image_pipeline.components.trees import fetch_tree, write_tree

_STATE, _OPTIMIZER_FILE = "state", "optimizer.json"
WAY_OUT = "delete this folder to go on from the checkpoint before, or from the beginning"
_KEPT = 2
_LOG = logging.getLogger(__name__)


class Checkpoints(StepsCallback):
    """Stores a checkpoint at regular steps and after every epoch; keeps the last two."""

    def __init__(
        self,
        folder: str,
        every_steps: int,
        start: Position,
        steps_per_epoch: int,
        state: tf.Module | None = None,
        clock: EpochClock | None = None,
        fed: Certificate | None = None,
    ):
        super().__init__()
        self._folder = folder
        self._every_steps = every_steps
        self._position = start
        self._steps_per_epoch = steps_per_epoch
        self._state = state
        self._clock = clock
        self._fed = fed

    def find_latest(self) -> str | None:
        """The folder of the latest checkpoint, if there is one."""
        return find_latest(self._folder)

    def on_steps(self, count: int) -> None:
        """Moves on, and stores a checkpoint if one was due at one of these steps."""
        before = self._position
        self._position = before.advance(count, self._steps_per_epoch)
        # At the end of an epoch, it is stored when the epoch has been evaluated.
        turn = self._position.step // self._every_steps
        if self._position.epoch == before.epoch and turn > before.step // self._every_steps:
            self._save()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Stores a checkpoint."""
        self._save()

    def _save(self) -> None:
        position = self._position
        # If the weights are NaN, resuming from them would be useless.
        if not are_finite([*self.model.variables, *self.model.optimizer.variables]):
            _LOG.warning("No checkpoint at %s: the weights are not finite.", position.to_json())
            return
        folder = files.join(self._folder, f"{position.epoch:06d}-{position.step:09d}")
        with write_tree(folder, last=POSITION_FILE) as local:
            _trackable(self.model, self._state).write(os.path.join(local, _STATE))
            if self._clock is not None:
                write_history(local, self._clock.history(self._steps_per_epoch))
            if self._fed is not None:
                write_certificate(local, self._fed.until(position.epoch, position.step))
            kept = to_sealed_json({"keeps": _name_state(self.model)}).encode()
            files.write_file(files.join(local, _OPTIMIZER_FILE), kept)
            # It appears complete or not at all.
            sealed = to_sealed_json(dataclasses.asdict(position))
            files.write_file(files.join(local, POSITION_FILE), sealed.encode())
        for old in _list_checkpoints(self._folder)[:-_KEPT]:
            files.delete(files.join(old, POSITION_FILE))  # First: what is left is not a checkpoint.
            files.delete_tree(old)


def restore_latest(
    model: keras.Model, folder: str, seed: int, state: tf.Module | None = None
) -> Position:
    """Restores the model from the latest checkpoint, if there is one.

    Args:
      model: compiled; its weights and its optimizer's are overwritten.
      folder: where `Checkpoints` stores.
      seed: of the training run.
      state: what else was kept, if anything; it is overwritten as well.

    Returns:
      Where training resumes; the beginning if there is no checkpoint.

    Raises:
      UserError: if the checkpoint is from another seed or another model.
    """
    latest = find_latest(folder)
    return Position(seed) if latest is None else restore(model, latest, seed, state)


def find_latest(folder: str) -> str | None:
    """The folder of the latest checkpoint, if there is one."""
    checkpoints = _list_checkpoints(folder)
    return checkpoints[-1] if checkpoints else None


def restore(model: keras.Model, latest: str, seed: int, state: tf.Module | None = None) -> Position:
    """Restores the model from a checkpoint, and gives where training resumes.

    Args and errors are those of `restore_latest`.
    """
    try:
        position = read_json(files.join(latest, POSITION_FILE), Position, WAY_OUT)
    except FileNotFoundError as error:
        raise UserError(
            f"training.resume_from must be the folder of a complete checkpoint, but {latest} has "
            f"no {POSITION_FILE}; name a folder that training.checkpoint_dir holds, such as "
            "…/000002-000000000."
        ) from error
    if position.seed != seed:
        raise UserError(
            f"The checkpoint {latest} was trained with training.seed={position.seed}, not {seed}: "
            "its order of data would be lost; set that seed, or another training.checkpoint_dir."
        )
    _check_optimizer(model, latest)
    state_dir = fetch_tree(latest)
    try:
        _trackable(model, state).read(os.path.join(state_dir, _STATE)).assert_consumed()
    except (AssertionError, ValueError) as error:
        raise UserError(
            f"The checkpoint {latest} does not fit the model ({describe_error(error)}); "
            "set another training.checkpoint_dir for another model."
        ) from error
    except Exception as error:  # Of a damaged file, TensorFlow raises many kinds.
        raise explain_shortage(error) or UserError(
            f"The checkpoint {latest} is damaged ({describe_error(error)}); {WAY_OUT}."
        ) from error
    return position


def _check_optimizer(model: keras.Model, latest: str) -> None:
    """Refuses another optimizer's state: by its shapes alone, averages fit gathered gradients."""
    try:
        kept = read_json(files.join(latest, _OPTIMIZER_FILE), dict[str, Any], WAY_OUT)
    except FileNotFoundError:  # Earlier versions did not write it.
        return
    was, own = kept["keeps"], _name_state(model)
    if was != own:
        raise UserError(
            f"The checkpoint {latest} has the state of another optimizer ({', '.join(was)}) than "
            f"this training has ({', '.join(own)}); give the same training.optimizer, momentum, "
            "schedule, use_ema, gradient_accumulation_steps and dtype_policy, or start over."
        )


def _name_state(model: keras.Model) -> list[str]:
    """What the optimizer is, and what it keeps of the weights, such as `Adam` and `velocity`."""
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    kept = {variable.name.rpartition("_")[2] for variable in model.optimizer.variables}
    return [type(find_inner(model.optimizer)).__name__, *sorted(kept)]


def _trackable(model: keras.Model, state: tf.Module | None = None) -> Any:
    if not model.optimizer.built:  # Some of Keras's would begin again.
        model.optimizer.build(model.trainable_variables)  # So that there is what to restore.
    # Keras tells TensorFlow only about weights, not about the state of dropout's random numbers.
    kept_elsewhere = {id(variable) for variable in (*model.weights, *model.metrics_variables)}
    random = [var.value for var in model.variables if id(var) not in kept_elsewhere]
    more = {} if state is None else {"state": state}
    return tf.train.Checkpoint(model=model, optimizer=model.optimizer, random=random, **more)


def _list_checkpoints(folder: str) -> list[str]:
    """The folders of complete checkpoints, oldest first."""
    return [os.path.dirname(path) for path in files.list_files(folder, f"*/{POSITION_FILE}")]
