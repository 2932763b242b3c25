"""Tags are joined, split and marked: exact values, and the inverse for any tags."""

import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

from image_pipeline.components.dataset import record
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.tags import join_tags, multi_hot, split_tags

pytestmark = pytest.mark.unit

TAG = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), min_size=1)


@given(st.lists(st.lists(TAG, max_size=5), min_size=1, max_size=5))
def test_splitting_is_the_inverse_of_joining(tags):
    encoded = [[tag.encode() for tag in each] for each in tags]
    joined = join_tags(tf.ragged.constant(encoded, tf.string, ragged_rank=1))
    assert joined.shape == [len(tags)]
    assert split_tags(joined).to_list() == encoded


def test_unknown_tags_mark_none_and_repeated_ones_mark_once():
    ids = tf.ragged.constant([[2, 0], [], [-1, 1, 1], [-1]], tf.int64)
    expected = [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_array_equal(multi_hot(ids, 3), expected)


@given(st.lists(st.lists(st.integers(-1, 6), max_size=9), min_size=1, max_size=6))
def test_each_row_marks_the_ids_that_it_has(ids):
    ragged = tf.ragged.constant(ids, tf.int64, ragged_rank=1)
    expected = [[each in row for each in range(7)] for row in ids]
    marked = tf.function(multi_hot)(ragged, 7)
    assert marked.dtype == tf.float32 and marked.shape == [len(ids), 7]
    np.testing.assert_array_equal(marked, expected)


def test_parsed_tags_are_one_dense_string_a_record():
    columns = [record.LABEL_COLUMNS["strings"]]
    rows = [[b"b", b"a"], [], ["ü".encode()]]
    serialized = [record.encode_example({record.TAGS: row}, columns) for row in rows]
    parsed = parse.parse_batch(tf.constant(serialized), columns)[record.TAGS]
    assert isinstance(parsed, tf.Tensor)
    assert parsed.numpy().tolist() == [b"b\na", b"", "ü".encode()]
