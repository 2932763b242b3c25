"""A damaged file costs its own row, and not the request."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from image_pipeline.components.served.decode import decode_image, take_views
from tests.served import files

pytestmark = pytest.mark.unit

SIZE = (files.HEIGHT, files.WIDTH, 3)
GOOD = files.opaque_files()["png"]
FRAMES = [Image.new("RGB", (8, 6), color) for color in ("red", "blue")]
OTHER = (
    b"unsupported: a served model decodes JPEG, PNG and still WebP files, as training saw them; "
    b"send the image as PNG, or ask `image-pipeline predict`, which decodes it as ingest does"
)
BAD = {
    b"": b"empty",
    b"no image": b"not_an_image",
    **{files.save(files.draw_palette(), kind): OTHER for kind in ("GIF", "BMP", "TIFF")},
    b"\0\0\0\x1cftypavif": OTHER,
    files.save(FRAMES[0], "WEBP", save_all=True, append_images=FRAMES[1:]): OTHER,
    GOOD[:-30]: b"corrupt",
    files.opaque_files()["jpeg"][:-30]: b"corrupt",
}


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
def take(batch):
    return take_views(
        lambda file: decode_image(file, 3, (255, 255, 255)), batch, tf.zeros(SIZE, tf.uint8)
    )


def test_good_files_among_bad_ones_are_decoded_in_their_rows():
    batch = [each for bad in BAD for each in (bad, GOOD)]
    images, errors = take(tf.constant(batch))
    expected = [each for reason in BAD.values() for each in (reason, b"")]
    assert errors.numpy().tolist() == expected
    np.testing.assert_array_equal(images[1::2], [files.draw_color()] * len(BAD))
    assert not images.numpy()[0::2].any()


@pytest.mark.parametrize("batch", [[], list(BAD), [GOOD], [GOOD] * 40])
def test_a_batch_of_any_kind_has_its_rows(batch):
    images, errors = take(tf.constant(batch, tf.string, shape=[len(batch)]))
    assert images.shape == (len(batch), *SIZE)
    assert errors.numpy().tolist() == [BAD.get(each, b"") for each in batch]
