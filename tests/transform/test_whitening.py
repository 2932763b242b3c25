"""Whitening through tf.Transform, against NumPy in float64."""

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.transform.check_function import check_function
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
