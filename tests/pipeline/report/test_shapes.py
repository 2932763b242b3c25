import pytest

from image_pipeline.report.shapes import describe_shapes

pytestmark = pytest.mark.beam


def test_sizes_formats_and_orientations(data):
    shapes = describe_shapes(data)
    assert dict(shapes.sizes) == {"10 × 8": 20, "12 × 20": 1, "96 × 72": 1, "192 × 144": 1}
    assert shapes.sizes[0] == ("10 × 8", 20)
    assert shapes.formats == [("png", 22), ("jpeg", 1)]
    assert shapes.stored_formats == [("png", 23)]
    assert shapes.orientations == [("upright", 22), ("turned by 90°", 1)]
    assert shapes.channels == [("colour", 23)]
    side, aspect = shapes.shorter_side, shapes.aspect
    assert (side.min, side.median, side.max) == (8, 8, 144)
    assert (aspect.min, aspect.max) == (12 / 20, 192 / 144)
    assert sum(side.counts) == 23
