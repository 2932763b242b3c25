"""Models as people write them: some right in an unusual way, the others wrong, each in one way."""

import keras
import tensorflow as tf

LAYERS = keras.layers
PROBABILITIES, LOGITS = "softmax", None


def _network(shape, values, activation=PROBABILITIES):
    inputs = keras.Input(shape)
    return inputs, LAYERS.Dense(values, activation=activation)(LAYERS.Flatten()(inputs))


def _compile(model, loss="sparse_categorical_crossentropy", metrics=("accuracy",)):
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss=loss, metrics=list(metrics))
    return model


@keras.saving.register_keras_serializable("tests")
class Subclass(keras.Model):
    """Has no output_shape, and a call that does not ask whether it is training."""

    def __init__(self, values, activation=PROBABILITIES):
        super().__init__()
        self.flatten = LAYERS.Flatten()
        self.dense = LAYERS.Dense(values, activation=activation)

    def call(self, images):
        return self.dense(self.flatten(images))


def subclass(shape, num_classes, options):
    return _compile(Subclass(num_classes))


def logits(shape, num_classes, options):
    model = keras.Model(*_network(shape, num_classes, LOGITS))
    return _compile(model, keras.losses.SparseCategoricalCrossentropy(from_logits=True))


def logits_for_a_loss_of_probabilities(shape, num_classes, options):
    return _compile(keras.Model(*_network(shape, num_classes, LOGITS)))


def sigmoid(shape, num_classes, options):
    return _compile(keras.Model(*_network(shape, num_classes, "sigmoid")))


def too_many_values(shape, num_classes, options):
    return _compile(keras.Model(*_network(shape, 1000)))


def dict_of_outputs(shape, num_classes, options):
    inputs, outputs = _network(shape, num_classes)
    return _compile(keras.Model(inputs, {"probabilities": outputs}))


def list_of_outputs(shape, num_classes, options):
    inputs, outputs = _network(shape, num_classes)
    model = keras.Model(inputs, [outputs, outputs])
    losses = ["sparse_categorical_crossentropy"] * 2
    model.compile(loss=losses)
    return model


def map_of_outputs(shape, num_classes, options):
    inputs = keras.Input(shape)
    return _compile(keras.Model(inputs, LAYERS.Conv2D(num_classes, 1)(inputs)))


def not_compiled(shape, num_classes, options):
    return keras.Model(*_network(shape, num_classes))


def without_a_loss(shape, num_classes, options):
    model = keras.Model(*_network(shape, num_classes))
    model.compile(optimizer="sgd")
    return model


def two_inputs(shape, num_classes, options):
    inputs, outputs = _network(shape, num_classes)
    return _compile(keras.Model([inputs, keras.Input((1,))], outputs))


def other_size(shape, num_classes, options):
    return _compile(keras.Model(*_network((5, 5, 3), num_classes)))


def one_hot_loss(shape, num_classes, options):
    return _compile(keras.Model(*_network(shape, num_classes)), "categorical_crossentropy")


def no_model(shape, num_classes, options):
    return "a model"


def nothing(shape, num_classes, options):
    keras.Model(*_network(shape, num_classes))


def fails(shape, num_classes, options):
    raise KeyError("planted")


def takes_one_argument(shape):
    return shape


def born_infinite(shape, num_classes, options):
    inputs = keras.Input(shape)
    layer = LAYERS.Dense(num_classes, bias_initializer=keras.initializers.Constant(float("inf")))
    return _compile(keras.Model(inputs, layer(LAYERS.Flatten()(inputs))))


def explodes(shape, num_classes, options):
    """Its weights overflow within a few steps: the loss is -1e30 times a logit."""
    model = keras.Model(*_network(shape, num_classes, LOGITS))
    return _compile(model, lambda labels, outputs: -1e30 * keras.ops.mean(outputs**3, axis=-1))


class _Masked(keras.layers.Layer):
    """Adds a mask of infinity where it does no harm."""

    def build(self, input_shape):
        del input_shape
        self.mask = self.add_weight(shape=(1,), initializer="zeros", trainable=False)
        self.mask.assign([float("-inf")])

    def call(self, images):
        return keras.ops.maximum(images, self.mask)


def infinite_constant(input_shape, num_classes, options):
    model = keras.Sequential(
        [
            keras.Input(input_shape),
            _Masked(),
            keras.layers.Flatten(),
            keras.layers.Dense(num_classes, activation="softmax"),
        ]
    )
    model.compile(loss="sparse_categorical_crossentropy")
    return model


class Own(keras.Model):
    """A subclass whose only layers are these two; what is odd is in `call`."""

    def __init__(self, num_classes):
        super().__init__()
        self.flatten, self.dense = LAYERS.Flatten(), LAYERS.Dense(num_classes, "softmax")

    def call(self, images):
        return self.dense(self.flatten(images))


class TwoWhenTrained(Own):
    def call(self, images, training=False):
        outputs = super().call(images)
        return (outputs, outputs) if training else outputs


class Eager(Own):
    def call(self, images):
        images.numpy()
        return super().call(images)


class Noisy(Own):
    """Noise that is kept on: its seed's state is not a weight."""

    def __init__(self, num_classes):
        super().__init__(num_classes)
        self.noise = LAYERS.GaussianNoise(0.1)

    def call(self, images):
        return super().call(self.noise(images, training=True))


class Scaled(Own):
    """As layers were written for Keras 2: Keras 3 does not see the variable."""

    def __init__(self, num_classes):
        super().__init__(num_classes)
        self.scale = tf.Variable(2.0)

    def call(self, images):
        return super().call(images * self.scale)


class Table(Own):
    def __init__(self, num_classes):
        super().__init__(num_classes)
        pairs = tf.lookup.KeyValueTensorInitializer([0], [1.0], tf.int64, tf.float32)
        self.table = tf.lookup.StaticHashTable(pairs, 1.0)

    def call(self, images):
        return super().call(images * self.table.lookup(tf.constant(0, tf.int64)))


def two_when_trained(shape, num_classes, options):
    return _compile(TwoWhenTrained(num_classes))


def eager_only(shape, num_classes, options):
    return _compile(Eager(num_classes))


def noisy(shape, num_classes, options):
    return _compile(Noisy(num_classes))


def scaled(shape, num_classes, options):
    return _compile(Scaled(num_classes))


def table(shape, num_classes, options):
    return _compile(Table(num_classes))
