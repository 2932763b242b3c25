"""What people write in Keras: the networks and settings of its own guides."""

import contextlib
import pathlib
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from image_pipeline.components.models import backbones

_BATCH = 32  # of image_dataset_from_directory
_GUIDE_PX, _TUTORIAL_PX = 150, 180
_HEAD_SHARE = 0.5  # of the time, for which the guide's network is frozen


class StopAt(keras.callbacks.Callback):
    """Ends training when it has taken so many seconds of processor time."""

    def __init__(self, cpu_seconds: float):
        """Takes the time; it counts from the first batch."""
        super().__init__()
        self.cpu_seconds, self.started = cpu_seconds, None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Starts the clock."""
        self.started = time.process_time() if self.started is None else self.started

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Looks at the clock."""
        if time.process_time() - self.started >= self.cpu_seconds:
            self.model.stop_training = True
            raise _TimeIsUp


class _TimeIsUp(Exception):
    pass


def _fit(model: keras.Model, train: tf.data.Dataset, cpu_seconds: float) -> None:
    with contextlib.suppress(_TimeIsUp):
        model.fit(train, epochs=10_000, verbose=0, callbacks=[StopAt(cpu_seconds)])


def _read(folder: pathlib.Path, size: tuple[int, int], seed: int) -> list[tf.data.Dataset]:
    read = keras.utils.image_dataset_from_directory
    return [
        read(folder / split, image_size=size, batch_size=_BATCH, seed=seed).prefetch(2)
        for split in ("train", "eval")
    ]


def small_network(folder: pathlib.Path, side_px: int, seed: int, cpu_seconds: float) -> float:
    """TensorFlow's tutorial on loading and classifying images, with its network and sizes.

    Returns:
      The accuracy on `eval`.
    """
    keras.utils.set_random_seed(seed)
    side = min(_TUTORIAL_PX, side_px)
    train, evaluated = _read(folder, (side, side), seed)
    layers = [keras.Input((side, side, 3)), keras.layers.Rescaling(1 / 255)]
    for filters in (16, 32, 64):
        layers += [keras.layers.Conv2D(filters, 3, padding="same", activation="relu")]
        layers += [keras.layers.MaxPooling2D()]
    layers += [keras.layers.Flatten(), keras.layers.Dense(128, activation="relu")]
    layers += [keras.layers.Dense(len(list((folder / "train").iterdir())))]
    model = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    _fit(model, train, cpu_seconds)
    return float(model.evaluate(evaluated, verbose=0)[1])


def fine_tuning(folder: pathlib.Path, side_px: int, seed: int, cpu_seconds: float) -> float:
    """Keras's guide to transfer learning and fine-tuning: its size, layers and learning rates.

    Its network is downloaded; here it is EfficientNet-Lite0, whose weights need no download.

    Returns:
      The accuracy on `eval`.
    """
    keras.utils.set_random_seed(seed)
    side = _GUIDE_PX
    train, evaluated = _read(folder, (side, side), seed)
    images = keras.Input((side, side, 3))
    body = keras.Model(images, backbones.see_pooled(images, pretrained=True))
    body.trainable = False
    inputs = keras.Input((side, side, 3))
    outputs = keras.layers.RandomFlip("horizontal")(inputs)
    outputs = keras.layers.RandomRotation(0.1)(outputs)
    outputs = keras.layers.Rescaling(1 / 127.5, offset=-1)(outputs)
    outputs = keras.layers.Dropout(0.2)(body(outputs, training=False))
    outputs = keras.layers.Dense(len(list((folder / "train").iterdir())))(outputs)
    model = keras.Model(inputs, outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(), loss, metrics=["accuracy"])
    _fit(model, train, _HEAD_SHARE * cpu_seconds)
    body.trainable = True
    model.compile(keras.optimizers.Adam(1e-5), loss, metrics=["accuracy"])
    _fit(model, train, (1 - _HEAD_SHARE) * cpu_seconds)
    return float(model.evaluate(evaluated, verbose=0)[1])


def segmentation(
    data: tuple[tf.data.Dataset, tf.data.Dataset], classes: int, seed: int, cpu_seconds: float
) -> float:
    """Keras's example of a U-Net-like network, on images and masks of 160 x 160 pixels.

    Args:
      data: batches of float images, 0 to 255, and class ids, 255 for none, of both splits.
      classes: how many there are.
      seed: of weights.
      cpu_seconds: for training.

    Returns:
      The mean IoU on the second of `data`.
    """
    keras.utils.set_random_seed(seed)
    layers = keras.layers
    inputs = keras.Input((160, 160, 3))
    outputs = layers.Rescaling(1 / 255)(inputs)
    outputs = layers.Conv2D(32, 3, strides=2, padding="same")(outputs)
    passed = outputs = layers.Activation("relu")(layers.BatchNormalization()(outputs))
    for filters in (64, 128, 256):
        for _ in range(2):
            outputs = layers.Activation("relu")(outputs)
            outputs = layers.SeparableConv2D(filters, 3, padding="same")(outputs)
            outputs = layers.BatchNormalization()(outputs)
        outputs = layers.MaxPooling2D(3, strides=2, padding="same")(outputs)
        residual = layers.Conv2D(filters, 1, strides=2, padding="same")(passed)
        passed = outputs = layers.add([outputs, residual])
    for filters in (256, 128, 64, 32):
        for _ in range(2):
            outputs = layers.Activation("relu")(outputs)
            outputs = layers.Conv2DTranspose(filters, 3, padding="same")(outputs)
            outputs = layers.BatchNormalization()(outputs)
        outputs = layers.UpSampling2D(2)(outputs)
        residual = layers.Conv2D(filters, 1, padding="same")(layers.UpSampling2D(2)(passed))
        passed = outputs = layers.add([outputs, residual])
    outputs = layers.Conv2D(classes, 3, activation="softmax", padding="same")(outputs)
    model = keras.Model(inputs, outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=255)
    model.compile(keras.optimizers.Adam(1e-4), loss)
    train, evaluated = data
    _fit(model, train, cpu_seconds)
    found = np.zeros((classes, classes), np.int64)
    for images, masks in evaluated:
        guessed = np.argmax(model.predict(images, verbose=0), -1)
        known = np.asarray(masks) != 255
        np.add.at(found, (np.asarray(masks)[known], guessed[known]), 1)
    both, union = np.diag(found), found.sum(0) + found.sum(1) - np.diag(found)
    return float(np.mean(both[union > 0] / union[union > 0]))
