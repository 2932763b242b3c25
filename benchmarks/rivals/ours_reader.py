"""This project: the shipped `input_fn`, with its exact order, its seeds and its transform graph."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions
from rivals import protocol

# JPEGs are decoded in every epoch, as by the others: a set this small would be held decoded.
_HOLD_DECODED = {"stored": False, "originals": False, "raw": True, "cifar": True}


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Builds the dataset."""
    tf.config.threading.set_inter_op_parallelism_threads(job.threads)
    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    size_px = job.task.size_px
    feeding = {
        "batch_size": job.batch_size,
        "augment": list_steps(job),
        "hold_decoded": _HOLD_DECODED[job.task.data],
    }
    batches = input_fn(
        job.meta["shards"],
        view=ViewOptions(
            height_px=size_px, width_px=size_px, crop_fraction=job.meta["centre_fraction"]
        ),
        feeding=FeedingOptions.model_validate(feeding),
        transform_graph_dir=job.meta["graph"],
        mode="train" if job.task.training else "eval",
        epochs=None if job.task.training else 1,
    )
    # Training reads all its epochs from one iterator, as `fit` does; evaluation begins again.
    training = iter(batches) if job.task.training else None
    steps = -(-len(job.load_records()) // job.batch_size)

    def read_epoch() -> Iterator[protocol.Batch]:
        epoch = batches if training is None else itertools.islice(training, steps)
        for images, labels in epoch:
            # Looked at where they lie, as a model would: `numpy()` copies.
            yield np.asarray(memoryview(images)), labels.numpy()

    return read_epoch


def list_steps(job: protocol.Job) -> list[dict[str, Any]]:
    """The random steps, as a configuration writes them."""
    flip = {"op": "flip_horizontal", "probability": 0.5}
    if job.task.data != "cifar":
        crop = {
            "op": "random_resized_crop",
            "area": protocol.CROP_AREA,
            "aspect": protocol.CROP_ASPECT,
        }
        return [crop, flip]
    # The level nearest to the mean colour, which the rivals fill with.
    fill = round(float(np.mean(job.meta["mean"])))
    rotation = {
        "op": "rotate",
        "degrees": protocol.CIFAR_DEGREES,
        "mode": "constant",
        "fill": fill,
    }
    pad_px, size_px = protocol.CIFAR_PAD_PX, protocol.CIFAR_CUTOUT_PX
    return [
        {"op": "pad_and_crop", "pad_px": pad_px, "mode": "constant", "fill": fill},
        flip,
        *([rotation] if job.name == "cifar_rotated" else []),
        {"op": "cutout", "size_px": size_px, "fill": fill},
    ]


if __name__ == "__main__":
    protocol.serve(make_reader, tuple(protocol.TASKS))
