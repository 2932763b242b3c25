"""Statistics through tf.Transform itself, against NumPy in float64."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from sklearn.utils.class_weight import compute_class_weight

from image_pipeline.components import contract
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.transform.check_function import check_function
from image_pipeline.components.transform.preprocessing import standardize, subtract_mean
from image_pipeline.components.transform.record_batches import input_specs
from image_pipeline.components.transform.statistics import read_statistics
from image_pipeline.components.transform.whitening import (
    EPSILON,
    WhiteningCombiner,
    whiten_pca,
    whiten_zca,
)
from image_pipeline.components.views.options import ViewOptions
from tests.transform.analyze import analyze

pytestmark = pytest.mark.beam


def _images(count, height=6, width=5, channels=3, low=0, high=256):
    generator = np.random.default_rng(count)
    return generator.integers(low, high, (count, height, width, channels), np.uint8)


def _transform(folder, images, labels):
    loaded = tf.saved_model.load(f"{folder}/transform_fn")
    return loaded.transform_fn(
        {contract.IMAGE_INPUT: tf.constant(images), contract.LABEL_INPUT: tf.constant(labels)}
    )


@pytest.mark.parametrize("sizes", [[7, 1, 2, *[1] * 9, 21]])
def test_mean_and_std_are_numpys_for_any_batching(tmp_path, sizes):
    images = _images(40)
    batches = np.split(images, np.cumsum(sizes)[:-1])
    analyze(tmp_path, [(batch, [b"a"] * len(batch)) for batch in batches], standardize)
    found = read_statistics(str(tmp_path))
    exact = images.astype(np.float64)
    np.testing.assert_allclose(found["mean"], exact.mean((0, 1, 2)), rtol=1e-15)
    np.testing.assert_allclose(found["std"], exact.std((0, 1, 2)), rtol=1e-14)


@pytest.mark.wide
def test_a_large_offset_with_a_small_spread_loses_no_digit(tmp_path):
    # One grey level of difference in one of 40 * 30 pixels: variance 8.3e-4 beside a square of
    # the mean of 65,000, where sums in float32 have no digit left.
    images = np.full((40, 6, 5, 3), 255, np.uint8)
    images[3, 2, 1] = 254
    analyze(tmp_path, [(images, [b"a"] * 40)], standardize)
    found = read_statistics(str(tmp_path))
    share = 1 / (40 * 30)
    np.testing.assert_allclose(found["mean"], 255 - share, rtol=1e-15)
    np.testing.assert_allclose(found["std"], np.sqrt(share * (1 - share)), rtol=1e-12)


def test_the_graph_normalises_and_numbers_the_classes(tmp_path):
    images = _images(40)
    labels = [b"dog"] * 30 + [b"cat"] * 10
    analyze(tmp_path, [(images, labels)], standardize)
    outputs = _transform(tmp_path, images[:3], [b"cat", b"dog", b"never seen"])
    exact = images.astype(np.float64)
    expected = (exact[:3] - exact.mean((0, 1, 2))) / exact.std((0, 1, 2))
    np.testing.assert_allclose(outputs[contract.IMAGE_OUTPUT], expected, atol=1e-6)
    assert outputs[contract.IMAGE_OUTPUT].dtype == tf.float32
    assert outputs[contract.LABEL_OUTPUT].numpy().tolist() == [0, 1, -1]


def test_a_constant_channel_is_divided_by_one(tmp_path):
    images = _images(10)
    images[..., 1] = 7
    analyze(tmp_path, [(images, [b"a"] * 10)], standardize)
    assert read_statistics(str(tmp_path))["std"][1] == 1
    assert read_statistics(str(tmp_path))["constant_channels"].tolist() == [False, True, False]
    outputs = _transform(tmp_path, images, [b"a"] * 10)
    assert (outputs[contract.IMAGE_OUTPUT].numpy()[..., 1] == 0).all()


def test_subtract_mean_takes_each_pixels_own_mean_in_grey_too(tmp_path):
    images = _images(40, channels=1)
    batches = [(images[:9], [b"a"] * 9), (images[9:], [b"a"] * 31)]
    analyze(tmp_path, batches, subtract_mean, ViewOptions(height_px=6, width_px=5, channels=1))
    mean = images.astype(np.float64).mean(0)
    np.testing.assert_array_equal(read_statistics(str(tmp_path))["mean_image"], mean)
    outputs = _transform(tmp_path, images[:2], [b"a"] * 2)
    expected = images[:2].astype(np.float32) - mean.astype(np.float32)
    np.testing.assert_array_equal(outputs[contract.IMAGE_OUTPUT], expected)


VIEW = ViewOptions(height_px=3, width_px=2)


def correlated_images(count=400):
    generator = np.random.default_rng(7)
    mixed = generator.normal(size=(count, 18)) @ generator.normal(size=(18, 18)) * 12 + 120
    return np.clip(mixed, 0, 255).astype(np.uint8).reshape(count, 3, 2, 3)


def run(folder, function, images):
    parts = np.split(images, [150])
    analyze(folder, [(part, [b"a"] * len(part)) for part in parts], function, VIEW)
    return TransformGraph(str(folder)).transform_images(tf.constant(images)).numpy()


def test_zca_is_numpys_and_decorrelates(tmp_path):
    images = correlated_images()
    found = run(tmp_path, whiten_zca, images)
    values = images.reshape(len(images), -1).astype(np.float64)
    centered = values - values.mean(0)
    variances, axes = np.linalg.eigh(np.cov(values.T, bias=True))
    matrix = axes / np.sqrt(variances + EPSILON * 255**2) @ axes.T
    np.testing.assert_allclose(found.reshape(values.shape), centered @ matrix, atol=1e-5)
    statistics = read_statistics(str(tmp_path))
    np.testing.assert_allclose(statistics["variances"], variances[::-1], rtol=1e-9)
    np.testing.assert_allclose(statistics["mean_image"], images.mean(0), rtol=1e-14)


def test_pca_gives_uncorrelated_values_of_falling_variance(tmp_path):
    images = correlated_images()
    found = run(tmp_path, whiten_pca, images)
    assert found.shape == images.shape
    covariance = np.cov(found.reshape(len(found), -1).T, bias=True)
    variances = read_statistics(str(tmp_path))["variances"]
    expected = np.diag(variances / (variances + EPSILON * 255**2))
    np.testing.assert_allclose(covariance, expected, atol=1e-5)


def test_batches_and_order_change_no_bit():
    values = correlated_images().reshape(400, 18).astype(np.float64) - 128
    combiner, found = WhiteningCombiner(18, rotate_back=True), []
    for edges in ([], [1, 150], [399, 20, 7]):
        parts = np.split(values, sorted(edges))
        sums = [combiner.add_input(combiner.create_accumulator(), [part]) for part in parts]
        found.append(combiner.extract_output(combiner.merge_accumulators(sums[::-1])))
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


def test_large_images_are_refused_before_any_is_read():
    specs = input_specs(ViewOptions(height_px=64, width_px=64))
    with pytest.raises(UserError, match=r"at most 4,096 values, .* 64×64×3 has 12,288, .* 1\.2 GB"):
        check_function(whiten_zca, "pkg.fn", specs)


# Ties, a name that is the beginning of another, one beyond ASCII, and records without a class.
COUNTS = {"a": 3, "ab": 3, "b": 5, "d": 5, "Zebra": 3, "straße": 1, "": 4, "two\nlines": 2}
KEPT = {name: count for name, count in COUNTS.items() if name and "\n" not in name}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    labels = [name.encode() for name, count in COUNTS.items() for _ in range(count)]
    np.random.default_rng(3).shuffle(labels)
    images = np.zeros((len(labels), 6, 5, 3), np.uint8)
    folder = tmp_path_factory.mktemp("graph")
    analyze(folder, [(images[:7], labels[:7]), (images[7:], labels[7:])], standardize)
    return str(folder)


def test_counts_are_in_the_order_of_the_vocabulary(folder):
    found = read_statistics(folder)
    vocabulary = tft.TFTransformOutput(folder).vocabulary_by_name("label")
    assert [name.decode() for name in vocabulary] == sorted(KEPT)
    assert found["class_names"].tolist() == vocabulary
    assert found["class_counts"].tolist() == [KEPT[name.decode()] for name in vocabulary]
    assert found["class_counts"].dtype == np.int64


def test_weights_are_scikit_learns_balanced(folder):
    found = read_statistics(folder)
    names = [name.decode() for name in found["class_names"]]
    labels = [name for name, count in KEPT.items() for _ in range(count)]
    expected = compute_class_weight("balanced", classes=np.array(names), y=labels)
    np.testing.assert_allclose(found["class_weights"], expected, rtol=1e-15)
    np.testing.assert_allclose(found["class_priors"], found["class_counts"] / 20, rtol=1e-15)
