"""Trains models on one device and on two; prints what each gave as JSON.

Run as a program, with TF_ENABLE_ONEDNN_OPTS=0: logical devices can only be made before TensorFlow
has begun.
"""

import json
import sys
import tempfile
import traceback

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from image_pipeline.components.feeding.options import FeedingOptions  # noqa: E402
from image_pipeline.components.models.options import TrainingOptions  # noqa: E402
from image_pipeline.components.order.batches import Position  # noqa: E402
from image_pipeline.components.training import replicas  # noqa: E402
from image_pipeline.components.training.checkpoint import (  # noqa: E402
    Checkpoints,
    restore_latest,
)
from image_pipeline.components.training.devices import open_strategy  # noqa: E402
from image_pipeline.components.training.model_check import build_checked_model  # noqa: E402
from image_pipeline.components.training.steps_per_execution import (  # noqa: E402
    WholeEpochs,
    hide_length,
)
from image_pipeline.components.training.unknown import leave_out_unknown  # noqa: E402
from image_pipeline.components.views.options import ViewOptions  # noqa: E402

VIEW = ViewOptions(height_px=4, width_px=4)
RECORDS = 17  # in batches of 4 and, last, 1: of which a replica has none
IMAGES = np.random.default_rng(0).standard_normal((RECORDS, 4, 4, 3)).astype(np.float32)
LABELS = np.arange(RECORDS) % 3
STEPS = -(-RECORDS // 4)


def read(labels, weights=None):
    columns = (IMAGES, labels) if weights is None else (IMAGES, labels, weights)
    return tf.data.Dataset.from_tensor_slices(columns).batch(4)


def train(name, strategy, data, unknown=False, folder=None, **options):
    """Two epochs; with a folder, the second one goes on from what the other strategy stored."""
    if folder is not None:
        other = {"none": "mirrored", "mirrored": "none"}[strategy]
        _fit(name, other, data, unknown, 1, f"{folder}/{other}", **options)
        return _fit(name, strategy, data, unknown, 2, f"{folder}/{other}", **options)
    return _fit(name, strategy, data, unknown, 2, None, **options)


def _fit(name, strategy, data, unknown, epochs, folder, **options):
    training = TrainingOptions(model=name, learning_rate=0.05, strategy=strategy, **options)
    checked = build_checked_model(VIEW, FeedingOptions(), training, 3)
    trained = replicas.spread(checked, VIEW, FeedingOptions(), training, 3)
    model = trained.model
    if unknown:
        leave_out_unknown(model)
    start = Position(0) if folder is None else restore_latest(model, folder, 0)
    stored = [] if folder is None else [Checkpoints(folder, 100, start, STEPS)]
    steps = hide_length(data.repeat()) if training.steps_per_execution else data.repeat()
    history = model.fit(
        steps,
        initial_epoch=start.epoch,
        epochs=epochs,
        steps_per_epoch=STEPS,
        validation_data=data,
        shuffle=False,
        verbose=0,
        callbacks=[WholeEpochs(), *stored],
    ).history
    if trained is not checked:
        checked.model.set_weights(model.get_weights())
    history["weights"] = [float(np.abs(each).sum()) for each in checked.model.get_weights()]
    return history


CASES = {
    "plain": ("dense", read(LABELS), {}),
    "unknown": ("dense", read(np.where(LABELS == 1, -1, LABELS)), {"unknown": True}),
    "weights": ("dense", read(LABELS, np.linspace(0.5, 2, RECORDS, dtype=np.float32)), {}),
    "several_steps": ("dense", read(LABELS), {"steps_per_execution": 2}),
    "resumed": ("averaged", read(LABELS), {"folder": tempfile.mkdtemp()}),
    "normalised": ("normalised", read(LABELS), {}),
    "convolved": ("convolved", read(LABELS), {}),
    "clipped": ("clipped", read(LABELS), {}),
    "averaged": ("averaged", read(LABELS), {}),
    "regularised": ("regularised", read(LABELS), {}),
    "half": ("half", read(LABELS), {}),
    "dropout": ("dropout", read(LABELS), {}),
    "summed": ("summed", read(LABELS), {}),
    "accumulated": ("accumulated", read(LABELS), {}),
}


def find_devices():
    """Where the parts of a batch are when a step asks for it."""
    strategy = open_strategy(TrainingOptions(strategy="mirrored"))
    (images, _) = next(iter(strategy.experimental_distribute_dataset(read(LABELS))))
    return [each.device[-5:] for each in strategy.experimental_local_results(images)]


def main(names):
    print(json.dumps({"case": "devices", "found": find_devices()}))
    for case in names:
        model, data, options = CASES[case]
        found = {"case": case}
        for strategy in ("none", "mirrored"):
            try:
                found[strategy] = train(
                    f"tests.training.device_models.{model}", strategy, data, **options
                )
            except Exception as error:
                found[strategy] = f"{type(error).__name__}: {error}"
                traceback.print_exc()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
