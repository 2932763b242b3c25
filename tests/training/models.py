"""What tests export and train when the weights do not matter: a model without a convolution."""

import keras

from components.training.options import TrainingOptions


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
