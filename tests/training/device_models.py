"""Small models that several devices could train otherwise than one does."""

import keras

from image_pipeline.components.models.model import Accuracy, cross_entropy


def _build(input_shape, num_classes, optimizer=None, loss=cross_entropy, between=(), **dense):
    # A bias that is normalised away has a gradient of rounding errors, of which Adam makes steps.
    first = keras.layers.Dense(8, use_bias=not between)
    layers = [keras.Input(input_shape), keras.layers.Flatten(), first, *between]
    outputs = keras.layers.Dense(num_classes, activation="softmax", dtype="float32", **dense)
    model = keras.Sequential([*layers, outputs])
    model.compile(optimizer or keras.optimizers.Adam(0.05), loss, metrics=[Accuracy()])
    return model


def dense(input_shape, num_classes, options):
    """Nothing special."""
    return _build(input_shape, num_classes)


def normalised(input_shape, num_classes, options):
    """With the batch's mean and variance."""
    between = [keras.layers.BatchNormalization(momentum=0.5)]
    return _build(input_shape, num_classes, between=between)


def convolved(input_shape, num_classes, options):
    """With a convolution, whose channels are normalised: a replica may have no record."""
    layers = [
        keras.Input(input_shape),
        keras.layers.Conv2D(8, 3, use_bias=False),
        keras.layers.BatchNormalization(momentum=0.5),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(num_classes, activation="softmax"),
    ]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.SGD(0.1), cross_entropy, metrics=[Accuracy()])
    return model


def clipped(input_shape, num_classes, options):
    """With gradients of a limited norm."""
    optimizer = keras.optimizers.SGD(1.0, momentum=0.9, global_clipnorm=0.1, weight_decay=0.01)
    return _build(input_shape, num_classes, optimizer)


def averaged(input_shape, num_classes, options):
    """With a moving average of weights, which are the result."""
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5)
    return _build(input_shape, num_classes, optimizer)


def regularised(input_shape, num_classes, options):
    """With losses of layers."""
    return _build(input_shape, num_classes, kernel_regularizer="l2", activity_regularizer="l1")


def half(input_shape, num_classes, options):
    """With mixed precision, whose loss is scaled."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return _build(input_shape, num_classes)
    finally:
        keras.config.set_dtype_policy("float32")


def dropout(input_shape, num_classes, options):
    """With random numbers."""
    return _build(input_shape, num_classes, between=[keras.layers.Dropout(0.5)])


def summed(input_shape, num_classes, options):
    """With a loss that is not a mean."""
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="sum")
    return _build(input_shape, num_classes, loss=loss)


def accumulated(input_shape, num_classes, options):
    """With gradients of two steps."""
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
    return _build(input_shape, num_classes, optimizer)
