"""Random steps and a model of a user, for the doctor's tests."""

import keras
import tensorflow as tf


def burn(images, keys):
    """Leaves images as they are, after billions of multiplications that depend on them."""
    start = tf.cast(tf.reduce_sum(tf.cast(images, tf.int32)), tf.float32) * 1e-9
    matrix = start + tf.reshape(tf.range(1200 * 1200, dtype=tf.float32), [1200, 1200]) * 1e-12
    for _ in range(4):
        matrix = tf.linalg.matmul(matrix, matrix) * 1e-3
    never = tf.reduce_sum(matrix) < -1.0
    return images + tf.cast(never, tf.uint8)


def build(input_shape, num_classes, options):
    """A model that is not compiled."""
    layers = [keras.layers.Flatten(), keras.layers.Dense(num_classes)]
    return keras.Sequential([keras.Input(input_shape), *layers])


def compile_model(model, options, steps_per_epoch):
    """Compiles it, see `training.compile`."""
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
