"""Shapes of squares, gray or in colours."""

import pytest

from image_pipeline.components.sources.pixel_shapes import guess_shape

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        (784, (28, 28, 1)),
        (3072, (32, 32, 3)),
        (1024, (32, 32, 1)),
        (64, (8, 8, 1)),
        (192, (8, 8, 3)),
        (49, None),
        (147, None),
        (783, None),
        (3071, None),
        (0, None),
    ],
)
def test_a_square_is_likely(values, shape):
    assert guess_shape(values) == shape
