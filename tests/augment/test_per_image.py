import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment.batch import map_images
from tests.augment.ways import make_batch

pytestmark = pytest.mark.unit


def _invert_some(images, chosen):
    assert all(each.shape[0] == 1 for each in images)
    return tf.cond(chosen[0], lambda: tuple(255 - each for each in images), lambda: images)


@pytest.mark.parametrize("compiled", [None, False, True])
def test_each_image_takes_its_own_branch(compiled):
    batch = make_batch(4, with_masks=True)
    chosen = tf.constant([True, False, False, True])
    run = lambda: map_images(_invert_some, (batch.images, batch.masks), chosen)  # noqa: E731
    images, masks = run() if compiled is None else tf.function(run, jit_compile=compiled)()
    for before, after in ((batch.images, images), (batch.masks, masks)):
        expected = np.where(chosen[:, None, None, None], 255 - before.numpy(), before)
        np.testing.assert_array_equal(after, expected)
        assert after.dtype == tf.uint8
