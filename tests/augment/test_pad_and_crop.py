import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.geometry import pad_and_crop
from image_pipeline.components.augment.options import PadAndCrop
from image_pipeline.components.dataset.record import IGNORED
from tests.augment.ways import check_hangs_on_keys_only, make_batch, make_keys, run_in_all_ways

pytestmark = pytest.mark.unit


def pad_and_cut(image, pad_px, top, left, mode, fill):
    padding = ((pad_px, pad_px), (pad_px, pad_px), (0, 0))
    extra = {"constant_values": fill} if mode == "constant" else {}
    padded = np.pad(image, padding, mode, **extra)
    return padded[top : top + image.shape[0], left : left + image.shape[1]]


def draw_starts(keys, pad_px):
    """The first row and column taken out of each padded image."""
    return np.floor(draws.uniform(keys, 2).numpy() * (2 * pad_px + 1)).astype(int)


# A padding wider than the image is mirrored more than once.
@pytest.mark.parametrize("pad_px", [1, 4, 17])
@pytest.mark.parametrize(("mode", "fill"), [("reflect", 0), ("constant", 0), ("constant", 77)])
@pytest.mark.parametrize("size", [(7, 5, 3), (8, 8, 1), (1, 6, 3)])
def test_the_images_are_padded_and_cut_out(size, mode, fill, pad_px):
    options = PadAndCrop(pad_px=pad_px, mode=mode, fill=fill)
    batch, keys = make_batch(8, *size, with_masks=True), make_keys(8)
    cut = run_in_all_ways(pad_and_crop, batch, keys, options)
    for place, (top, left) in enumerate(draw_starts(keys, pad_px)):
        for before, after, level in (
            (batch.images, cut.images, fill),
            (batch.masks, cut.masks, IGNORED),
        ):
            expected = pad_and_cut(before[place].numpy(), pad_px, top, left, mode, level)
            np.testing.assert_array_equal(after[place], expected)


def test_every_place_is_drawn_equally_often():
    starts = draw_starts(make_keys(9000), 1)
    counts = np.bincount(starts[:, 0] * 3 + starts[:, 1])
    assert len(counts) == 9 and counts.min() > 850 and counts.max() < 1150
    # The drawn places are those that images show: a picture whose pixels tell where they stand.
    images = np.tile(np.arange(64, dtype=np.uint8).reshape(1, 8, 8, 1), (9000, 1, 1, 1))
    shown = pad_and_crop(Batch(tf.constant(images)), make_keys(9000), PadAndCrop(pad_px=1))
    np.testing.assert_array_equal(shown.images[:, 4, 4, 0], 27 + starts[:, 0] * 8 + starts[:, 1])


def test_the_shift_hangs_on_the_key_only():
    check_hangs_on_keys_only(pad_and_crop, PadAndCrop())


@given(st.integers(0, 2**32), st.sampled_from(["reflect", "constant"]))
def test_a_box_moves_with_what_it_shows(seed, mode):
    # One bright rectangle, rows 2 to 4, columns 4 to 5; a shift of 3 may push out half of it.
    images = np.zeros((4, 8, 8, 1), np.uint8)
    images[:, 2:5, 4:6] = 255
    boxes = tf.tile(tf.constant([[[2 / 8, 4 / 8, 5 / 8, 6 / 8]]]), [4, 1, 1])
    options = PadAndCrop(pad_px=3, mode="constant")
    keys = make_keys(4, seed)
    shown = pad_and_crop(Batch(tf.constant(images), boxes=boxes), keys, options)
    same = pad_and_crop(
        Batch(tf.constant(images), boxes=boxes), keys, PadAndCrop(pad_px=3, mode=mode)
    )
    np.testing.assert_array_equal(same.boxes, shown.boxes)
    for image, box in zip(shown.images.numpy(), shown.boxes.numpy()[:, 0], strict=True):
        rows, columns = np.nonzero(image[..., 0])
        expected = [rows.min(), columns.min(), rows.max() + 1, columns.max() + 1]
        np.testing.assert_array_equal(box * 8, expected)


def test_a_box_that_is_pushed_out_becomes_zeros():
    batch = make_batch(60, 8, 8, boxes=[[0.0, 0.0, 0.25, 0.25], [0.0, 0.0, 1.0, 1.0]])
    keys = make_keys(60)
    moved = run_in_all_ways(pad_and_crop, batch, keys, PadAndCrop(pad_px=4))
    starts = draw_starts(keys, 4) - 4
    out = (starts >= 2).any(axis=1)
    assert 0 < out.sum() < 60
    np.testing.assert_array_equal((moved.boxes[:, 0] == 0).all(axis=1), out)
    assert (moved.boxes[:, 1].max(axis=1) > 0).all()
