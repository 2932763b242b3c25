import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment.mix import has_partner, partner_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, []), (1, [0]), (2, [1, 0]), (5, [1, 0, 3, 2, 4]), (6, [1, 0, 3, 2, 5, 4])],
)
def test_neighbours_are_partners(count, expected, compiled):
    function = tf.function(lambda values: (partner_of(values), has_partner(values)))
    if compiled:
        function = tf.function(function.python_function, jit_compile=True)
    partners, have_one = function(tf.range(count))
    assert partners.numpy().tolist() == expected
    assert have_one.numpy().tolist() == [number != each for number, each in enumerate(expected)]


def test_values_of_any_shape_and_type_are_given():
    values = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    np.testing.assert_array_equal(partner_of(tf.constant(values)), values[[1, 0, 2]])
    assert partner_of(tf.constant(["a", "b"])).numpy().tolist() == [b"b", b"a"]


def test_the_batch_size_may_be_unknown():
    numbers = tf.data.Dataset.range(7).batch(4).map(partner_of)
    assert [part.tolist() for part in numbers.as_numpy_iterator()] == [[1, 0, 3, 2], [5, 4, 6]]


def test_shares_of_a_batch_cut_at_even_places_have_the_same_partners():
    values = tf.range(10)
    parts = [partner_of(values[start : start + 4]) for start in (0, 4, 8)]
    np.testing.assert_array_equal(tf.concat(parts, axis=0), partner_of(values))
