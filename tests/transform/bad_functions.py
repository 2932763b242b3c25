"""What a `preprocessing_fn` must not be. Tests look lines up by the comments at their ends."""

import random
import random as dice
import time

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from numpy.random import default_rng

from image_pipeline.components.transform.preprocessing import standardize

GENERATOR = np.random.default_rng(0)


def _plain(inputs, offset=0.0):
    """A good function, plus whatever is added to the pixels."""
    image = tf.cast(inputs["image"], tf.float32) + offset
    return {"image": image, "label": number(inputs["label"])}


def number(labels, **settings):
    settings = {"default_value": -1, "vocab_filename": "label"} | settings
    return tft.compute_and_apply_vocabulary(labels, **settings)


def _noise():
    return np.random.rand()  # numpy.random.rand


def numpy_random(inputs):
    return _plain(inputs, _noise())


def python_random(inputs):
    return _plain(inputs, random.random())  # random.random


def aliased_random(inputs):
    return _plain(inputs, dice.uniform(0, 1))  # random.uniform


def imported_generator(inputs):
    return _plain(inputs, default_rng(1).normal())  # numpy.random.default_rng


def module_generator(inputs):
    return _plain(inputs, GENERATOR.normal())  # random generator GENERATOR


def clock(inputs):
    return _plain(inputs, time.time())  # time.time


def local_name_random(inputs):
    random = inputs["image"]  # not the module
    return _plain({**inputs, "image": random.ref().deref()})


class Counter:
    """Hides what differs between traces from the source's reader."""

    calls = 0

    def next(self):
        self.calls += 1
        return float(self.calls)


COUNTER = Counter()


def differs_every_time(inputs):
    return _plain(inputs, COUNTER.next() + tf.constant(0.0) + COUNTER.calls)


def tensorflow_random(inputs):
    return _plain(inputs, tf.random.uniform([]))  # RandomUniform


def random_inside_a_branch(inputs):
    bright = tf.reduce_mean(tf.cast(inputs["image"], tf.float32)) > 0
    return _plain(inputs, tf.cond(bright, lambda: tf.random.normal([]), lambda: 0.0))


def random_flip(inputs):
    return _plain({**inputs, "image": tf.image.random_flip_left_right(inputs["image"])})


def calls_python(inputs):
    return _plain(inputs, tf.py_function(lambda: 1.0, [], tf.float32))  # EagerPyFunc


def fixed_projection(inputs):
    """A pure function of its seed: allowed."""
    return _plain(inputs, tf.random.stateless_normal([3], seed=[1, 2]))


def no_dict(inputs):
    return tf.cast(inputs["image"], tf.float32)


def no_label(inputs):
    return {"image": _plain(inputs)["image"]}


def ragged(inputs):
    return {**_plain(inputs), "image": tf.RaggedTensor.from_tensor(inputs["image"])}


def integer_image(inputs):
    return {**_plain(inputs), "image": inputs["image"]}


def double_image(inputs):
    return {**_plain(inputs), "image": tf.cast(inputs["image"], tf.float64)}


def half_image(inputs):
    return {**_plain(inputs), "image": tf.cast(inputs["image"], tf.float16)}


def brain_image(inputs):
    return {**_plain(inputs), "image": tf.cast(inputs["image"], tf.bfloat16)}


def smaller_image(inputs):
    return {**_plain(inputs), "image": _plain(inputs)["image"][:, ::2, ::2]}


def gray_image(inputs):
    return {**_plain(inputs), "image": _plain(inputs)["image"][..., :1]}


def flat_image(inputs):
    return {**_plain(inputs), "image": tf.reshape(_plain(inputs)["image"], [-1, 48])}


def double_extra(inputs):
    return {**_plain(inputs), "ratio": tf.cast(inputs["image"], tf.float64)[:, 0, 0, 0]}


def boolean_extra(inputs):
    return {**_plain(inputs), "is_dark": inputs["image"][:, 0, 0, 0] < 9}


def scalar_extra(inputs):
    return {**_plain(inputs), "mean": tf.reduce_mean(_plain(inputs)["image"])}


def python_extra(inputs):
    return {**_plain(inputs), "version": 3}


def number_as_key(inputs):
    return {**_plain(inputs), 3: inputs["label"]}


def _relabel(inputs, label):
    """A good image output, and a label output of another making."""
    return {"image": tf.cast(inputs["image"], tf.float32), "label": label}


def no_vocabulary(inputs):
    return _relabel(inputs, tf.strings.to_hash_bucket_fast(inputs["label"], 10))


def unused_vocabulary(inputs):
    number(inputs["label"])
    return _relabel(inputs, tf.cast(tf.strings.length(inputs["label"]), tf.int64))


def vocabulary_with_counts(inputs):
    return _relabel(inputs, number(inputs["label"], store_frequency=True))


def compressed_vocabulary(inputs):
    return _relabel(inputs, number(inputs["label"], file_format="tfrecord_gzip"))


def unnamed_vocabulary(inputs):
    return _relabel(inputs, number(inputs["label"], vocab_filename=None))


def misnamed_vocabulary(inputs):
    return _relabel(inputs, number(inputs["label"], vocab_filename="classes"))


def other_vocabulary(inputs):
    number(inputs["label"])
    return _relabel(inputs, number(inputs["label"], vocab_filename="classes"))


def two_vocabularies(inputs):
    return standardize(inputs) | {"label": number(inputs["label"])}


def vocabulary_with_buckets(inputs):
    return _relabel(inputs, number(inputs["label"], num_oov_buckets=2))


def unknown_is_a_class(inputs):
    return _relabel(inputs, number(inputs["label"], default_value=0))


def numbered_in_a_branch(inputs):
    """A good one, of which the look-up is not seen."""
    vocabulary = tft.vocabulary(inputs["label"], vocab_filename="label")
    ids = tf.cond(
        tf.size(inputs["label"]) > 0,
        lambda: tft.apply_vocabulary(inputs["label"], vocabulary),
        lambda: tf.zeros([0], tf.int64),
    )
    return _relabel(inputs, tf.ensure_shape(ids, [None]))


def renamed_labels(inputs):
    """A good one: its classes are not the folders' names."""
    return _relabel(inputs, number(tf.strings.upper(inputs["label"])))


def sizes_as_classes(inputs):
    """A good one, whose classes depend on another column than the label."""
    return _relabel(inputs, number(tf.strings.as_string(inputs["image/height"])))


def two_steps(inputs):
    """A good one: the vocabulary is found and applied apart."""
    vocabulary = tft.vocabulary(inputs["label"], vocab_filename="label")
    return _relabel(inputs, tft.apply_vocabulary(inputs["label"], vocabulary))


def string_label(inputs):
    return {**_plain(inputs), "label": inputs["label"]}


def one_mean(inputs):
    return {**_plain(inputs), "image": tf.reduce_mean(_plain(inputs)["image"])}


def unbatched(inputs):
    return {**_plain(inputs), "image": tf.reshape(_plain(inputs)["image"], [1, 48])}


def unknown_size(inputs):
    image = _plain(inputs)["image"]
    rows = tf.cast(tf.reduce_max(image), tf.int32)
    return {**_plain(inputs), "image": image[:, :rows]}


def unknown_key(inputs):
    return _plain({"image": inputs["image"], "label": inputs["lable"]})


def fails(inputs):
    image = tf.cast(inputs["image"], tf.float32)
    return _plain({**inputs, "image": image @ tf.zeros([7, 7])})  # fails


def image_from_label(inputs):
    length = tf.cast(tf.strings.length(inputs["label"]), tf.float32)
    return _plain(inputs, length[:, None, None, None])


def label_from_image(inputs):
    return {**_plain(inputs), "label": tf.cast(inputs["image"][:, 0, 0, 0], tf.int64)}


def batch_mean(inputs):
    image = _plain(inputs)["image"]
    return {**_plain(inputs), "image": image - tf.reduce_mean(image)}


def nan_on_black(inputs):
    image = _plain(inputs)["image"]
    return {**_plain(inputs), "image": image / tf.reduce_max(image, axis=[1, 2, 3], keepdims=True)}


def two_rows_an_image(inputs):
    return {**_plain(inputs), "image": tf.repeat(_plain(inputs)["image"], 2, axis=0)}


def pairs_only(inputs):
    first, second = tf.split(_plain(inputs)["image"], 2, axis=0)
    image = tf.concat([first, second], axis=0)
    return {**_plain(inputs), "image": tf.ensure_shape(image, [None, *inputs["image"].shape[1:]])}


def reads_numbers_from_names(inputs):
    """Traces without an error, and fails on the first class whose name is not a number."""
    greatest = tft.max(tf.strings.to_number(inputs["label"]))
    return {**_plain(inputs), "image": _plain(inputs)["image"] / greatest}
