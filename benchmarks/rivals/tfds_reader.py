"""TFDS over the shards of this project, which are a TFDS data set, too.

As its pages on performance and on decoding advise (https://www.tensorflow.org/datasets/performances,
https://www.tensorflow.org/datasets/decode): shards interleaved and shuffled, decoding skipped on
reading, so that training decodes only the crop, by `tf.image.decode_and_crop_jpeg`.
"""

import pathlib
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from rivals import protocol

AUTOTUNE = tf.data.AUTOTUNE
_SHUFFLED_RECORDS = 1_000
_READ = ("image/encoded", "image/class/text")


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Builds the dataset; every epoch iterates it again, as `Model.fit` does."""
    tf.config.threading.set_inter_op_parallelism_threads(job.threads)
    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    builder = tfds.builder_from_directory(pathlib.Path(job.meta["shards"][0]).parents[1])
    skipped = {"image/encoded": tfds.decode.SkipDecoding()}
    decoders = tfds.decode.PartialDecoding(dict.fromkeys(_READ, True), decoders=skipped)
    records = builder.as_dataset("train", shuffle_files=job.task.training, decoders=decoders)
    keys, ids = tf.constant(job.meta["classes"]), tf.range(len(job.meta["classes"]))
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, ids), -1)
    if job.task.training:
        records = records.shuffle(_SHUFFLED_RECORDS)
    view = _random_view if job.task.training else _centre_view

    def make_example(record: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        image = view(record["image/encoded"], job.task.size_px)
        normalised = (image - job.meta["mean"]) / job.meta["std"]
        return normalised, table.lookup(record["image/class/text"])

    examples = records.map(make_example, num_parallel_calls=AUTOTUNE)
    batches = examples.batch(job.batch_size).prefetch(AUTOTUNE)

    def read_epoch() -> Iterator[protocol.Batch]:
        for images, labels in batches:
            # Looked at where they lie, as a model would: `numpy()` copies.
            yield np.asarray(memoryview(images)), labels.numpy()

    return read_epoch


def _random_view(stored: tf.Tensor, size_px: int) -> tf.Tensor:
    """float32 [size, size, 3]."""
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(stored),
        bounding_boxes=tf.constant([0.0, 0.0, 1.0, 1.0], shape=[1, 1, 4]),
        min_object_covered=0.1,
        aspect_ratio_range=protocol.CROP_ASPECT,
        area_range=protocol.CROP_AREA,
        max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )
    cropped = _decode_crop(stored, begin[:2], size[:2])
    return tf.image.random_flip_left_right(tf.image.resize(cropped, [size_px, size_px]))


def _centre_view(stored: tf.Tensor, size_px: int) -> tf.Tensor:
    """float32 [size, size, 3]."""
    shape = tf.image.extract_jpeg_shape(stored)[:2]
    shorter = tf.cast(tf.reduce_min(shape), tf.float32)
    side = tf.cast(tf.round(protocol.CENTRE_FRACTION * shorter), tf.int32)
    cropped = _decode_crop(stored, (shape - side) // 2, tf.stack([side, side]))
    return tf.image.resize(cropped, [size_px, size_px])


def _decode_crop(stored: tf.Tensor, begin: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """uint8 [height, width, 3]."""
    return tf.image.decode_and_crop_jpeg(stored, tf.concat([begin, size], 0), channels=3)


if __name__ == "__main__":
    protocol.serve(make_reader, protocol.JPEG_TASKS)
