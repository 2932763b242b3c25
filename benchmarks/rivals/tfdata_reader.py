"""tf.data the way TensorFlow's guides write it: one op after another on one image after another.

TFRecord files are interleaved, records shuffled in a buffer, decoded, cropped
(`sample_distorted_bounding_box`), resized, flipped and normalised by maps under AUTOTUNE, batched
and prefetched; see tensorflow.org/guide/data_performance and the ImageNet example of the Model
Garden. CIFAR-10 begins, as in the tutorials, with `from_tensor_slices`.
"""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from rivals import protocol

AUTOTUNE = tf.data.AUTOTUNE
_SHUFFLED_RECORDS, _SHUFFLED_SMALL = 1_000, 10_000
_FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/height": tf.io.FixedLenFeature([], tf.int64),
    "image/width": tf.io.FixedLenFeature([], tf.int64),
    "image/class/text": tf.io.FixedLenFeature([], tf.string),
}


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Builds the dataset; every epoch iterates it again, as `Model.fit` does."""
    tf.config.threading.set_inter_op_parallelism_threads(job.threads)
    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    dataset = _read_small(job) if job.task.data == "cifar" else _read_photos(job)
    batches = dataset.batch(job.batch_size).prefetch(AUTOTUNE)

    def read_epoch() -> Iterator[protocol.Batch]:
        for images, labels in batches:
            # Looked at where they lie, as a model would: `numpy()` copies.
            yield np.asarray(memoryview(images)), labels.numpy()

    return read_epoch


def _read_photos(job: protocol.Job) -> tf.data.Dataset:
    keys, ids = tf.constant(job.meta["classes"]), tf.range(len(job.meta["classes"]))
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, ids), -1)
    files = tf.data.Dataset.list_files(job.meta["shards"], shuffle=job.task.training)
    records = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=AUTOTUNE)
    if job.task.training:
        records = records.shuffle(_SHUFFLED_RECORDS)
    view = _random_view if job.task.training else _centre_view

    def make_example(serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features = tf.io.parse_single_example(serialized, _FEATURES)
        image = view(_decode(features, job.meta["format"]), job.task.size_px)
        return _normalise(image, job), table.lookup(features["image/class/text"])

    return records.map(make_example, num_parallel_calls=AUTOTUNE)


def _decode(features: dict[str, tf.Tensor], encoding: str) -> tf.Tensor:
    """uint8 [height, width, 3]."""
    if encoding == "jpeg":
        return tf.io.decode_jpeg(features["image/encoded"], channels=3)
    shape = tf.stack([features["image/height"], features["image/width"], 3])
    return tf.reshape(tf.io.decode_raw(features["image/encoded"], tf.uint8), shape)


def _random_view(image: tf.Tensor, size_px: int) -> tf.Tensor:
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.shape(image),
        bounding_boxes=tf.constant([0.0, 0.0, 1.0, 1.0], shape=[1, 1, 4]),
        min_object_covered=0.1,
        aspect_ratio_range=protocol.CROP_ASPECT,
        area_range=protocol.CROP_AREA,
        max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )
    cropped = tf.ensure_shape(tf.slice(image, begin, size), [None, None, 3])
    return tf.image.random_flip_left_right(tf.image.resize(cropped, [size_px, size_px]))


def _centre_view(image: tf.Tensor, size_px: int) -> tf.Tensor:
    shape = tf.shape(image)[:2]
    shorter = tf.cast(tf.reduce_min(shape), tf.float32)
    side = tf.cast(tf.round(protocol.CENTRE_FRACTION * shorter), tf.int32)
    top, left = tf.unstack((shape - side) // 2)
    cropped = tf.image.crop_to_bounding_box(image, top, left, side, side)
    return tf.image.resize(cropped, [size_px, size_px])


def _normalise(image: tf.Tensor, job: protocol.Job) -> tf.Tensor:
    return (tf.cast(image, tf.float32) - job.meta["mean"]) / job.meta["std"]


def _read_small(job: protocol.Job) -> tf.data.Dataset:
    records, side = job.load_records(), job.task.size_px
    images = np.asarray(job.map_payload()).reshape(-1, side, side, 3)
    dataset = tf.data.Dataset.from_tensor_slices((images, records["label"]))
    turns = protocol.CIFAR_DEGREES / 360 if job.name == "cifar_rotated" else 0
    rotate = tf.keras.layers.RandomRotation(turns, "constant") if turns else tf.identity

    def make_example(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        padded_px = side + 2 * protocol.CIFAR_PAD_PX
        padded = tf.image.resize_with_crop_or_pad(_normalise(image, job), padded_px, padded_px)
        cropped = tf.image.random_crop(padded, [side, side, 3])
        flipped = tf.image.random_flip_left_right(cropped)
        return _cut_out(rotate(flipped)), label

    shuffled = dataset.shuffle(_SHUFFLED_SMALL)
    return shuffled.map(make_example, num_parallel_calls=AUTOTUNE)


def _cut_out(image: tf.Tensor) -> tf.Tensor:
    """Sets a square inside a normalised image to 0, the mean."""
    side, cut = image.shape[0], protocol.CIFAR_CUTOUT_PX
    top, left = tf.unstack(tf.random.uniform([2], 0, side - cut + 1, tf.int32))
    rows, columns = tf.range(side)[:, None], tf.range(side)[None, :]
    is_cut = (rows >= top) & (rows < top + cut) & (columns >= left) & (columns < left + cut)
    return tf.where(is_cut[..., None], 0.0, image)


if __name__ == "__main__":
    protocol.serve(make_reader, tuple(protocol.TASKS))
