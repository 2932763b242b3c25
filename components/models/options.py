"""Options for training."""

from typing import Literal

import pydantic

from image_pipeline.components.dotted import DottedPath
from image_pipeline.components.options import Options


class TrainingOptions(Options):
    """How the model is trained."""

    model: DottedPath = "image_pipeline.components.models.model.build_model"
    """Dotted path of `build_model(input_shape, num_classes, options) -> compiled keras.Model`, as
    docs/training.md describes it. If images have masks, the default is replaced by
    `image_pipeline.components.models.unet.build_model`, if they have boxes by
    `image_pipeline.components.models.detector.build_model`."""
    epochs: pydantic.PositiveInt = 10
    """Passes over the train split."""
    learning_rate: pydantic.PositiveFloat = 1e-3
    """Adam's learning rate (read by the default model)."""
    class_weights: Literal["none", "balanced"] = "none"
    """`balanced`: a record's weight in the training loss is records / (classes · its class's
    records), as counted by the analysis, so that every class weighs the same. Of tags, the loss of
    each tag that a record has is multiplied by the number of records without that tag for each one
    with it; `model` then needs a loss [batch, tags], as the default's is. Evaluation does not
    change. (`feeding.balance` draws small classes more often instead; use one or the other.)"""
    seed: int = 0
    """Seed of weights, order and augmentation."""
    checkpoint_dir: str | None = None
    """Folder (or URI) for checkpoints: interrupted training resumes from the latest one, at the
    very next batch. None: no checkpoints."""
    start_from: str | None = None
    """Folder of a checkpoint of other options, such as a higher learning rate, for the same model,
    data and seed: training goes on from there, and keeps all but the learning rate. If this run has
    checkpoints of its own, these are taken."""
    checkpoint_steps: pydantic.PositiveInt = 1000
    """Steps between checkpoints within an epoch; the end of an epoch always stores one. One that
    is due within a call of several steps (`steps_per_execution`) is stored at the call's end."""
    steps_per_execution: pydantic.PositiveInt | None = None
    """Steps in one call of the model: Keras's `compile(steps_per_execution=…)`, known on TPUs as
    iterations per loop. It saves the cost of a call, which matters where steps are short. The
    resulting model is the same, bit for bit. An epoch's last call makes the steps that are left.
    None leaves what `model` was compiled with; Keras's default is 1."""
    strategy: Literal["none", "mirrored"] = "none"
    """`mirrored` trains on all visible GPUs (or all logical CPUs, if there is none): each has a
    copy of the weights and takes its part of every batch, and `feeding.batch_size` remains the size
    of the whole batch. The steps are the same as on one device, up to the order in which numbers
    are added up; see docs/strategies.md."""
    profile_steps: int | None = pydantic.Field(default=None, ge=1, le=50)
    """Traces this many steps in mid-training for TensorBoard; `run --profile` sets it. The
    default model's steps take 0.2 MB each, those of larger networks more."""
