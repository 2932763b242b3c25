"""How long training takes on this machine, by two steps of it."""

import time

import numpy as np

from image_pipeline.init.recipe import SecondsAnImage

_BATCH, _STEPS = 8, 2


def measure_steps(kind: str, classes: int) -> SecondsAnImage:
    """What measures a step of a network for labels of a kind; it imports TensorFlow when called.

    Args:
      kind: as `LabelKind.name` has it.
      classes: how many there are.
    """

    def measure(name: str, height: int, width: int, channels: int) -> float:
        import keras
        import tensorflow as tf

        from image_pipeline.components.models.find_builder import find_builder
        from image_pipeline.components.models.options import TrainingOptions
        from image_pipeline.components.tasks.choose_task import TASK_OF

        task = next(each for label, each in TASK_OF.items() if label.name == kind)
        shape = height, width, channels
        model = find_builder(name, task.head)(shape, max(2, classes), TrainingOptions(model=name))
        images = tf.zeros([_BATCH, *shape])
        labels, _ = task.make_labels(model(images), False)
        model.train_on_batch(images, labels)  # traces
        seconds = []
        for _ in range(_STEPS):
            started = time.perf_counter()
            model.train_on_batch(images, labels)
            seconds.append(time.perf_counter() - started)
        keras.utils.clear_session()
        return float(np.min(seconds)) / _BATCH

    return measure
