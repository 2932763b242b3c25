"""Yielded values become arrays of exactly the stated type and shape, or are named."""

import numpy as np
import pytest

from image_pipeline.components.generators.generator_structure import (
    Leaf,
    encode_structure,
)
from image_pipeline.components.generators.generator_worker import WrongItem

pytestmark = pytest.mark.unit

IMAGE = Leaf(np.dtype("uint8"), (2, None, 3))
LABEL = Leaf(np.dtype("int64"), ())
VALUE = Leaf(np.dtype("float32"), None)
TEXT = Leaf(None, (None,))


def test_leaves_come_in_the_order_of_their_names():
    structure = {"z": (LABEL, VALUE), "a": IMAGE, "t": TEXT}
    item = {"a": np.ones((2, 4, 3)), "t": ["x", b"y"], "z": [7, 0.1]}
    image, text, label, value = encode_structure(item, structure)
    assert image.dtype == np.uint8 and image.shape == (2, 4, 3) and image.flags.c_contiguous
    assert text.tolist() == [b"x", b"y"] and text.dtype == object
    assert (label.dtype, label.shape, int(label)) == (np.int64, (), 7)
    assert value == np.float32(0.1)


def test_an_image_that_does_not_lie_in_order_is_brought_into_it():
    image = np.arange(36, dtype=np.uint8).reshape(3, 4, 3).transpose(1, 0, 2)[::2]
    (found,) = encode_structure(image, IMAGE)
    np.testing.assert_array_equal(found, image)
    assert found.flags.c_contiguous


@pytest.mark.parametrize(
    ("item", "structure", "message"),
    [
        (np.zeros((3, 4, 3)), IMAGE, r"the item must be of shape \(2, None, 3\), got \(3, 4, 3\)"),
        (np.full((2, 1, 3), 0.5), IMAGE, "the item must be uint8, got float64 .values would cha"),
        (np.full((2, 1, 3), 256), IMAGE, "the item must be uint8, got int64 .values would change"),
        ((1,), (LABEL, LABEL), "the item must be 2 values, got tuple of 1"),
        (5, (LABEL, LABEL), "the item must be 2 values, got int"),
        ({"a": 1}, {"b": LABEL}, r"the item must have \['b'\], got \['a'\]"),
        (
            (1, {"a": (2, "x")}),
            (LABEL, {"a": (LABEL, VALUE)}),
            r"\[1\]\['a'\]\[1\] must be fl",
        ),
        ([1, 2], TEXT, "the item must be text, got list"),
        ((1, None), (LABEL, LABEL), r"\[1\] must be int64, got NoneType"),
        ([[1], [2, 3]], VALUE, "the item must be float32, got list"),
    ],
)
def test_what_does_not_fit_is_named(item, structure, message):
    with pytest.raises(WrongItem, match=message):
        encode_structure(item, structure)
