"""What tests export and train when the weights do not matter: a model without a convolution."""

import keras

from image_pipeline.components.models.compiling import compile_model
from image_pipeline.components.models.options import TrainingOptions


def build_linear_model(
    input_shape: tuple[int, int, int], num_classes: int, options: TrainingOptions
) -> keras.Model:
    """A softmax over all pixels."""
    inputs = keras.Input(input_shape)
    outputs = keras.layers.Dense(num_classes, activation="softmax")(keras.layers.Flatten()(inputs))
    model = keras.Model(inputs, outputs, name="linear")
    model.compile(
        optimizer=keras.optimizers.SGD(options.learning_rate),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def build_dropout_model(
    input_shape: tuple[int, int, int], num_classes: int, options: TrainingOptions
) -> keras.Model:
    """A softmax over a random half of the pixels: training draws random numbers."""
    inputs = keras.Input(input_shape)
    dropped = keras.layers.Dropout(0.5)(keras.layers.Flatten()(inputs))
    model = keras.Model(inputs, keras.layers.Dense(num_classes, activation="softmax")(dropped))
    optimizer = keras.optimizers.Adam(options.learning_rate)
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy")
    return model


def build_model_of_two_steps_an_execution(
    input_shape: tuple[int, int, int], num_classes: int, options: TrainingOptions
) -> keras.Model:
    """As the linear model, but Keras calls back after every second step only."""
    model = build_linear_model(input_shape, num_classes, options)
    model.compile(optimizer=model.optimizer, loss=model.loss, steps_per_execution=2)
    return model


def build_by_recipe(
    input_shape: tuple[int, int, int], num_classes: int, options: TrainingOptions
) -> keras.Model:
    """As the linear model with normalised pixels, but compiled by the recipe."""
    inputs = keras.Input(input_shape)
    pixels = keras.layers.Flatten()(keras.layers.BatchNormalization(momentum=0.5)(inputs))
    outputs = keras.layers.Dense(num_classes, activation="softmax", dtype="float32")(pixels)
    model = keras.Model(inputs, outputs)
    compile_model(model, "sparse_categorical_crossentropy", ["accuracy"], options)
    return model


def compile_with_lion(model: keras.Model, options: TrainingOptions, steps_per_epoch: int) -> None:
    """What `training.compile` may name; it reads one option."""
    rate = keras.optimizers.schedules.CosineDecay(options.learning_rate, 2 * steps_per_epoch)
    model.compile(keras.optimizers.Lion(rate), loss=model.loss)


def compile_not(model: keras.Model, options: TrainingOptions, steps_per_epoch: int) -> None:
    """What it may not."""


def compile_wrongly(model: keras.Model, options: TrainingOptions, steps_per_epoch: int) -> None:
    """The same."""
    model.compile("adamm")
