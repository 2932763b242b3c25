import logging

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from image_pipeline.components import contract
from image_pipeline.components.feeding.graph import (
    TransformGraph,
    compile_or_keep,
    compile_pixels,
    once,
)
from image_pipeline.components.transform import preprocessing
from tests import graphs

pytestmark = pytest.mark.beam

SIZE = (12, 10, 3)


def standardize_by_constants(inputs):
    pixels = tf.cast(inputs[contract.IMAGE_INPUT], tf.float32)
    mean, std = tf.constant([120.3, 110.7, 99.1]), tf.constant([60.2, 61.4, 62.9])
    return _with_label(inputs, (pixels - mean) / std)


def shuffle_by_strings(inputs):
    """Goes through strings, which XLA does not know."""
    texts = tf.strings.as_string(tf.cast(inputs[contract.IMAGE_INPUT], tf.int32))
    return _with_label(inputs, tf.strings.to_number(texts))


def _with_label(inputs, pixels):
    label = tft.compute_and_apply_vocabulary(
        inputs[contract.LABEL_INPUT], default_value=-1, vocab_filename=contract.LABEL_VOCABULARY
    )
    return {contract.IMAGE_OUTPUT: pixels, contract.LABEL_OUTPUT: label}


def load(folder, preprocessing_fn):
    return TransformGraph(graphs.write_graph(folder, SIZE, preprocessing_fn=preprocessing_fn))


def draw_batch(count=5):
    return np.random.default_rng(3).integers(0, 256, (count, *SIZE), np.uint8)


@pytest.mark.parametrize(
    "preprocessing_fn",
    [standardize_by_constants, preprocessing.standardize, preprocessing.subtract_mean],
)
def test_the_compiled_graph_has_the_bits_of_the_saved_one(preprocessing_fn, tmp_path):
    graph = load(tmp_path, preprocessing_fn)
    views = {
        "image": tf.constant(draw_batch()),
        "label": tf.constant(["cat", "dog", "x", "", "cat"]),
    }
    pixels = graph.compile_pixels()
    assert pixels is not None
    expected_images, _ = graph(views)
    assert pixels(views["image"]).numpy().tobytes() == expected_images.numpy().tobytes()


def test_it_compiles(tmp_path):
    graph = load(tmp_path, standardize_by_constants)
    pixels = compile_pixels(graph._loaded.transform_fn)
    assert pixels is not None and pixels._jit_compile
    assert pixels(tf.constant(draw_batch(1))).shape == (1, *SIZE)


def test_a_graph_that_cannot_be_compiled_says_what_that_costs(tmp_path, caplog):
    graph = load(tmp_path, shuffle_by_strings)
    with caplog.at_level(logging.WARNING):
        assert graph.compile_pixels() is None
    assert "The transform graph is not compiled" in caplog.text
    assert "0.6 instead of 0.05 ms" in caplog.text


def test_a_function_that_xla_does_not_know_is_kept_with_a_warning(caplog):
    def count_letters(text):
        return tf.strings.length(text)

    with caplog.at_level(logging.WARNING):
        kept = compile_or_keep(count_letters, [tf.constant(["a", "bc"])], "Letters take longer.")
    assert kept is count_letters and "Letters take longer." in caplog.text
    compiled = compile_or_keep(lambda a, b: a + b, [tf.zeros([2]), tf.zeros([2])], "")
    assert compiled._jit_compile
    assert compiled(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])).numpy().tolist() == [4, 6]


def test_other_bits_are_refused(tmp_path, caplog, monkeypatch):
    graph = load(tmp_path, standardize_by_constants)
    monkeypatch.setattr("image_pipeline.components.feeding.graph._gives_the_same", lambda *_: False)
    with caplog.at_level(logging.WARNING):
        assert compile_pixels(graph._loaded.transform_fn) is None
    assert "it gives other bits than TensorFlow's kernels" in caplog.text


def test_what_was_made_once_is_taken_again():
    made = []
    first = once(("test", 1), lambda: made.append(1) or len)
    assert once(("test", 1), lambda: made.append(2) or max) is first is len
    assert once(("test", 2), lambda: made.append(3) or max) is max
    assert made == [1, 3]


@pytest.mark.wide
def test_a_graph_is_compiled_once_however_often_it_is_loaded(tmp_path):
    graph = load(tmp_path / "one", standardize_by_constants)
    again = TransformGraph(str(tmp_path / "one"))
    assert graph.compile_pixels() is again.compile_pixels()
    assert load(tmp_path / "two", preprocessing.subtract_mean).compile_pixels() is not None
    other = TransformGraph(str(tmp_path / "two"))
    assert other.compile_pixels() is not graph.compile_pixels()
