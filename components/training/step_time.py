"""How long training takes on this machine, by a few steps of it."""

import time

import keras
import tensorflow as tf

from image_pipeline.components.models.find_builder import find_builder
from image_pipeline.components.models.names import BACKBONES
from image_pipeline.components.models.options import FineTuning, TrainingOptions
from image_pipeline.components.tasks.choose_task import TASK_OF
from image_pipeline.components.training.phases import Phases

# As many images a step as have so many pixels: with few small ones, calling the step would take
# more time than the step.
_PIXELS, _LEAST, _MOST = 2**17, 8, 32
_STEPS = 3


def measure_step(
    kind: str, classes: int, model_name: str, height_px: int, width_px: int, channels: int
) -> float:
    """Trains a network on black images; one of ImageNet's photos as `training.fine_tuning` does.

    Args:
      kind: of the labels, as `LabelKind.name` has it.
      classes: how many there are.
      model_name: of a network that a configuration can name in a word.
      height_px: of the model's input.
      width_px: of the model's input.
      channels: of the model's input.

    Returns:
      Seconds for each image of the fastest step.
    """
    task = next(each for label, each in TASK_OF.items() if label.name == kind)
    shape = height_px, width_px, channels
    count = min(_MOST, max(_LEAST, _PIXELS // (height_px * width_px)))
    outputs = 1 if task.head == "value" else max(2, classes)
    build = find_builder(model_name, task.head)
    tuning = FineTuning(head_epochs=1) if model_name in BACKBONES else None
    training = TrainingOptions(model=model_name).model_copy(update={"fine_tuning": tuning})
    model = build(shape, outputs, training)
    Phases(model, training).enter(epoch=1)  # BatchNorm that learns takes half as much time again.
    images = tf.zeros([count, *shape])
    labels, _ = task.make_labels(model(images), False)
    model.train_on_batch(images, labels)  # traces
    seconds = []
    for _ in range(_STEPS):
        started = time.perf_counter()
        model.train_on_batch(images, labels)
        seconds.append(time.perf_counter() - started)
    keras.utils.clear_session()
    return min(seconds) / count
