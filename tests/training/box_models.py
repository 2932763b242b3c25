"""Models for boxes that cannot be trained or served, and one that gives logits."""

import keras


class OwnLoss(keras.Model):
    """Learns scores alone, of any candidate."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return keras.ops.mean(y_pred["scores"] ** 2) + 0 * keras.ops.sum(y["boxes"])


def _build(input_shape, values, activation=None, sides=4, names=("boxes", "scores")):
    inputs = keras.Input(input_shape)
    flat = keras.layers.GlobalAveragePooling2D()(inputs)
    boxes = keras.layers.Reshape([5, sides])(keras.layers.Dense(5 * sides)(flat))
    scores = keras.layers.Dense(5 * values, activation=activation)(flat)
    outputs = dict(zip(names, (boxes, keras.layers.Reshape([5, values])(scores)), strict=True))
    model = OwnLoss(inputs, outputs)
    model.compile("sgd")
    return model


def one_tensor(input_shape, num_classes, options):
    inputs = keras.Input(input_shape)
    model = keras.Model(inputs, keras.layers.Conv2D(4, 1)(inputs))
    model.compile("sgd", loss="mse")
    return model


def other_names(input_shape, num_classes, options):
    return _build(input_shape, num_classes, "sigmoid", names=("box", "score"))


def five_sides(input_shape, num_classes, options):
    return _build(input_shape, num_classes, "sigmoid", sides=5)


def too_many_values(input_shape, num_classes, options):
    return _build(input_shape, num_classes + 1, "sigmoid")


def without_loss(input_shape, num_classes, options):
    built = _build(input_shape, num_classes, "sigmoid")
    model = keras.Model(built.input, built.output)
    model.compile("sgd")
    return model


def logits(input_shape, num_classes, options):
    return _build(input_shape, num_classes)
