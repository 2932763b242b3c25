"""Options for how a model learns: optimizer, schedule, averaging, precision, when to stop."""

from typing import Literal

import pydantic

from image_pipeline.components.dotted import DottedPath
from image_pipeline.components.options import Options

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


class RecipeOptions(Options):
    """How the weights are moved.

    `compile_model` applies what Keras's optimizers and losses know, so all built-in models read it.
    """

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


# What only whoever compiles the model can heed; the rest is heeded for every model.
OF_THE_COMPILER = (
    *("optimizer", "momentum", "nesterov", "weight_decay", "clipnorm"),
    *("global_clipnorm", "schedule", "warmup_epochs", "end_factor", "label_smoothing", "use_ema"),
    *("ema_momentum", "gradient_accumulation_steps"),
)


def check_recipe(options: RecipeOptions, epochs: int) -> None:
    """Raises ValueError if options exclude each other, or one would change nothing."""
    name = options.optimizer
    for option, value, takers in (
        ("momentum", options.momentum is not None, _WITH_MOMENTUM),
        ("nesterov", options.nesterov, _WITH_NESTEROV),
    ):
        if value and name not in takers:
            raise ValueError(
                f"{option} is of {', '.join(takers)}, but the optimizer is {name}; leave it out, "
                "or set training.optimizer."
            )
    if options.clipnorm is not None and options.global_clipnorm is not None:
        raise ValueError("clipnorm and global_clipnorm exclude each other; set one of them.")
    if options.warmup_epochs >= epochs and options.warmup_epochs:
        raise ValueError(
            f"warmup_epochs must be less than epochs, got {options.warmup_epochs:g} of {epochs}; "
            "lower it, or raise training.epochs."
        )
    _check_used(options)


def _check_used(options: RecipeOptions) -> None:
    """Refuses options that belong to one that is not set."""
    defaults = type(options).model_fields
    for option, is_used, needed in (
        ("end_factor", options.schedule == "cosine", "schedule=cosine"),
        ("ema_momentum", options.use_ema, "use_ema=true"),
        *(
            (each, options.early_stopping_patience is not None, "early_stopping_patience=5, say")
            for each in ("early_stopping_monitor", "restore_best_weights")
        ),
    ):
        value = getattr(options, option)
        if not is_used and value != defaults[option].default:
            raise ValueError(
                f"{option}={value} would change nothing; set training.{needed} as well, or leave "
                "it out."
            )
