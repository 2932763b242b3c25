"""What tests export and train when the weights do not matter: a model without a convolution."""

import keras

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
