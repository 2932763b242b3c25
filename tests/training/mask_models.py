"""Models for masks that cannot be trained or served, and one that gives logits."""

import keras


def _compile(outputs, inputs, loss=None):
    model = keras.Model(inputs, outputs)
    model.compile("sgd", loss=loss or keras.losses.SparseCategoricalCrossentropy(ignore_class=255))
    return model


def one_class_an_image(input_shape, num_classes, options):
    inputs = keras.Input(input_shape)
    flat = keras.layers.GlobalAveragePooling2D()(inputs)
    return _compile(keras.layers.Dense(num_classes, activation="softmax")(flat), inputs)


def half_size(input_shape, num_classes, options):
    inputs = keras.Input(input_shape)
    outputs = keras.layers.Conv2D(num_classes, 1, strides=2, activation="softmax")(inputs)
    return _compile(keras.layers.Cropping2D(((0, 0), (0, 1)))(outputs), inputs)


def too_many_values(input_shape, num_classes, options):
    inputs = keras.Input(input_shape)
    return _compile(keras.layers.Conv2D(4, 1, activation="softmax")(inputs), inputs)


def reads_ignored(input_shape, num_classes, options):
    inputs = keras.Input(input_shape)
    outputs = keras.layers.Conv2D(num_classes, 1, activation="softmax")(inputs)
    return _compile(outputs, inputs, "sparse_categorical_crossentropy")


def logits_for_a_loss_of_probabilities(input_shape, num_classes, options):
    inputs = keras.Input(input_shape)
    return _compile(keras.layers.Conv2D(num_classes, 1)(inputs), inputs)


def logits(input_shape, num_classes, options):
    inputs = keras.Input(input_shape)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=255)
    return _compile(keras.layers.Conv2D(num_classes, 1)(inputs), inputs, loss)
