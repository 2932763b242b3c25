import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.feeding import parse
from image_pipeline.components.views.options import ViewOptions
from tests import shards

pytestmark = pytest.mark.unit


def test_spec_follows_the_columns():
    columns = (
        record.Column("a", "bytes"),
        record.Column("b", "int64"),
        record.Column("c", "float32", is_list=True),
    )
    assert parse.feature_spec(columns) == {
        "a": tf.io.FixedLenFeature([], tf.string),
        "b": tf.io.FixedLenFeature([], tf.int64),
        "c": tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64),
    }


def test_a_record_comes_back_as_it_was_written():
    features = parse.parse_record(shards.make_example(shards.draw_image(0), "dog"), record.COLUMNS)
    assert features[record.LABEL] == b"dog"
    assert (features[record.HEIGHT], features[record.WIDTH], features[record.CHANNELS]) == (
        12,
        16,
        3,
    )
    assert features[record.IMAGE] == shards.encode_image(shards.draw_image(0), "png")


def test_list_columns_become_vectors():
    columns = (record.Column("boxes", "float32", is_list=True),)
    full = parse.parse_record(record.encode_example({"boxes": [1.5, 2.5]}, columns), columns)
    empty = parse.parse_record(record.encode_example({"boxes": []}, columns), columns)
    assert (full["boxes"].numpy().tolist(), empty["boxes"].numpy().tolist()) == ([1.5, 2.5], [])


def test_a_record_without_a_column_names_it():
    empty = record.encode_example({}, ())
    with pytest.raises(tf.errors.InvalidArgumentError, match="image/class/text"):
        parse.parse_record(empty, [parse.LABEL_COLUMN])


@pytest.mark.parametrize("image_format", ["png", "raw"])
@pytest.mark.parametrize("stored_channels", [1, 3])
def test_lossless_formats_decode_to_their_pixels(image_format, stored_channels):
    image = shards.draw_image(5, channels=stored_channels)
    serialized = shards.make_example(image, image_format=image_format)
    features = parse.parse_record(serialized, parse.IMAGE_COLUMNS)
    decode = tf.function(parse.decode_record, autograph=False)
    view = ViewOptions(channels=stored_channels)
    np.testing.assert_array_equal(decode(features, view), image)
    if stored_channels == 1:
        np.testing.assert_array_equal(decode(features, ViewOptions()), np.repeat(image, 3, axis=2))


def test_raw_pixels_that_look_like_a_jpeg_stay_pixels():
    image = shards.draw_image(0)
    image[0, 0] = (0xFF, 0xD8, 0xFF)
    serialized = shards.make_example(image, image_format="raw")
    features = parse.parse_record(serialized, parse.IMAGE_COLUMNS)
    np.testing.assert_array_equal(parse.decode_record(features, ViewOptions()), image)
