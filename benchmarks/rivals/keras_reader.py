"""Keras: `image_dataset_from_directory` and preprocessing layers, as https://keras.io/api shows.

Validation only: Keras has no layer for a random-resized crop. Files are resized so that the shorter
side is 256 px and the middle is kept; `CenterCrop` and `Normalization` do the rest.
"""

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from rivals import protocol


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Builds the dataset; every epoch iterates it again, as `Model.fit` does."""
    tf.config.threading.set_inter_op_parallelism_threads(job.threads)
    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    labels, size = job.load_records()["label"].tolist(), job.task.size_px
    resized = round(size / protocol.CENTRE_FRACTION)
    # Labels stand in the order of the files' names, as text.
    order = sorted(range(len(labels)), key=lambda number: f"{number}.jpg")
    dataset = keras.utils.image_dataset_from_directory(
        str(job.data_dir / "files"),
        labels=[labels[number] for number in order],
        batch_size=job.batch_size,
        image_size=(resized, resized),
        crop_to_aspect_ratio=True,
        shuffle=False,
        verbose=False,
    )
    variance = np.square(job.meta["std"])
    layers = [
        keras.layers.CenterCrop(size, size),
        keras.layers.Normalization(mean=job.meta["mean"], variance=variance),
    ]
    view = keras.Sequential(layers)
    batches = dataset.map(lambda images, ids: (view(images), ids), tf.data.AUTOTUNE)

    def read_epoch() -> Iterator[protocol.Batch]:
        for images, ids in batches.prefetch(tf.data.AUTOTUNE):
            # Looked at where they lie, as a model would: `numpy()` copies.
            yield np.asarray(memoryview(images)), ids.numpy()

    return read_epoch


if __name__ == "__main__":
    protocol.serve(make_reader, ("val_jpeg", "originals_val"))
