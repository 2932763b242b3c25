"""Pixels in tf.Examples: tensors as TensorFlow writes them, and bytes with a shape beside."""

import io

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.record_files.tfrecord_images import Found, Pixels, find_tensor
from tests.data_set_files import PACKINGS, field, varint, write_tfrecord
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.unit

PIXELS = draw(0)


def _serialize(array):
    return tf.io.serialize_tensor(array).numpy()


def _open(tmp_path, *examples, name="a.tfrecord"):
    write_tfrecord(tmp_path / name, examples)
    options = complete_options(str(tmp_path / name), IngestOptions())
    return open_source(str(tmp_path / name), options), options


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float16", "float32", "int64", "float64"])
@pytest.mark.parametrize("shape", [PIXELS.shape, (8, 30)])
def test_a_tensor_is_found_as_tensorflow_writes_it(dtype, shape):
    array = PIXELS.reshape(shape).astype(dtype)
    data = b"before" + _serialize(array) + b"behind"
    found = find_tensor(data, 6, len(data) - 6)
    assert found is not None and found.pixels == Pixels(dtype, shape)
    assert data[found.at : found.end] == array.tobytes()


def test_what_is_no_picture_is_no_tensor():
    text = _serialize(tf.constant(["a", "b"]))
    others = [_serialize(PIXELS[None]), _serialize(np.uint8(3)), _serialize(PIXELS[0, 0]), text]
    cut, png = _serialize(PIXELS)[:-1], encode_png(PIXELS)
    empty = _serialize(np.zeros((0, 4, 3), np.uint8))
    for data in (*others, cut, png, b"", empty, b"cat", b"\x08"):
        assert find_tensor(data, 0, len(data)) is None


def test_fields_may_be_in_any_order_and_the_last_counts():
    content, shape = field(4, b"abcd"), field(2, field(2, b"\x08\x02") * 2)
    dtype = varint(1 << 3) + varint(4)
    data = field(4, b"no") + content + shape + dtype
    assert find_tensor(data, 0, len(data)) == Found(6, 10, Pixels("uint8", (2, 2)))


@pytest.mark.parametrize("ending", PACKINGS)
def test_tensors_are_passed_on_as_npy(tmp_path, ending):
    arrays = [draw(number) for number in range(3)]
    examples = [{"image_raw": _serialize(each), "label": n} for n, each in enumerate(arrays)]
    source, options = _open(tmp_path, *examples, name=f"a.tfrecord{ending}")
    assert options.columns == {"image": "image_raw", "path": None, "label": "label"}
    for ref, array in zip(source.list(), arrays, strict=True):
        np.testing.assert_array_equal(np.load(io.BytesIO(source.read(ref, 10**9))), array)


def test_beside_files_of_images_tensors_of_whole_numbers_are_masks(tmp_path):
    mask = PIXELS[..., 0]
    example = {"a_mask": _serialize(mask), "mask": _serialize(mask), "image": encode_png(PIXELS)}
    source, options = _open(tmp_path, example)
    assert options.columns == {"image": "image", "path": None, "mask": "mask"}
    (ref,) = source.list()
    np.testing.assert_array_equal(np.load(io.BytesIO(source.read(ref.mask, 10**9))), mask)
    embedding = _serialize(np.ones((1, 8), np.float32))
    with pytest.raises(UserError, match=r"'embedding' cannot be kept .*\{embedding: null\}"):
        _open(tmp_path, {"image": encode_png(PIXELS), "embedding": embedding})


@pytest.mark.parametrize(
    "beside", [{"rows": 8, "cols": 10, "depth": 3}, {"image/shape": [8, 10, 3]}, {"shape": [8, 30]}]
)
def test_a_shape_beside_the_bytes_is_found(tmp_path, beside):
    source, options = _open(tmp_path, {"image": PIXELS.tobytes(), **beside})
    assert options.columns["image"] == "image"
    (ref,) = source.list()
    found = np.load(io.BytesIO(source.read(ref, 10**9)))
    assert found.tobytes() == PIXELS.tobytes() and found.shape in ((8, 10, 3), (8, 30))


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({"image_raw": PIXELS.tobytes()}, r"Columns: image_raw\. .*'image_raw' cannot be kept "),
        ({"image": PIXELS.tobytes()}, r":1: the column 'image' cannot be kept "),
        ({"image": _serialize(tf.constant(["a", "b"]))}, r"its 14 bytes are neither text nor "),
    ],
)
def test_bytes_that_are_no_picture_are_refused_and_not_printed(tmp_path, example, message):
    with pytest.raises(UserError, match=message) as refused:
        _open(tmp_path, example)
    assert "pixels are read if they are [height, width, channels]" in str(refused.value)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 600


def test_numbers_that_may_be_pixels_are_refused(tmp_path):
    numbers = {"image": PIXELS.ravel().tolist(), "height": 8, "width": 10, "depth": 3}
    with pytest.raises(UserError, match=r"If the 240 values of 'image' are an image, state its"):
        _open(tmp_path, numbers)


def test_several_images_in_a_record_are_refused_or_its_problem(tmp_path):
    image = encode_png(PIXELS)
    with pytest.raises(UserError, match=r"it holds 2 images, and a record may have one; write a"):
        _open(tmp_path, {"images": [image, image]})
    for order in (1, -1):
        examples = [{"images": image}, {"images": [image, image]}][::order]
        source, _ = _open(tmp_path, *examples)
        assert [ref.message for ref in source.list()][::order] == [
            "",
            f"a.tfrecord:{2 if order > 0 else 1}: the column 'images': it holds 2 images, and a "
            "record may have one; write a record for each",
        ]


def test_beside_an_image_several_are_left_out_as_another_one_is(tmp_path):
    """As the Model Garden's COCO has the masks of boxes."""
    image = encode_png(PIXELS)
    examples = [{"image/encoded": image, "image/object/mask": [image] * n} for n in (2, 0, 1)]
    for each in (examples[:2], examples):
        source, options = _open(tmp_path, *each)
        assert options.columns == {"image": "image/encoded", "path": None}
        assert [source.read(ref, 10**9) for ref in source.list()] == [image] * len(each)


def test_text_in_any_encoding_stays_text(tmp_path):
    examples = [{"image": encode_png(PIXELS), "note": "Café".encode("latin-1"), "n": b"\x00"}]
    examples.append(examples[0] | {"n": b"text"})
    _, options = _open(tmp_path, *examples)
    assert options.column_types == {"n": "string", "note": "string"}
