import pytest
import tensorflow as tf

from image_pipeline.components.arrays.in_place import make_reference
from image_pipeline.components.dataset.stored import IMAGE_KEYS
from image_pipeline.components.evaluation.embedding import fetch_record
from tests.array_files import IMAGES, write_npz
from tests.arrays.test_array_tables import open_table

pytestmark = pytest.mark.unit


def _write_record(image):
    """A record of a raw image of 6 x 5 x 3; `image` is its pixels, or where they are."""
    example = tf.train.Example()
    for key, value in zip(IMAGE_KEYS, (image, 6, 5, 3, b"raw"), strict=True):
        values = example.features.feature[key]
        kind = values.int64_list if isinstance(value, int) else values.bytes_list
        kind.value.append(value)
    return example.SerializeToString()


def test_images_that_stay_where_they_are_are_fetched(tmp_path):
    table = open_table(write_npz(tmp_path / "a.npz", {"x": IMAGES}))
    ref = next(table.list())
    pixels = IMAGES[0].tobytes()
    placed = _write_record(make_reference(ref, table.read(ref, 10**6), pixels))
    whole = _write_record(pixels)
    parse = tf.train.Example.FromString
    assert placed != whole and parse(fetch_record(placed)) == parse(whole)
    assert fetch_record(whole) == whole and fetch_record(b"a") == b"a"
