"""Whatever steps are taken: a box follows the rectangle that it is around, a mask its image."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.augment.apply import apply_steps
from image_pipeline.components.augment.batch import Batch, replace_boxes, shares_inside
from image_pipeline.components.augment.options import STEPS, read_step
from image_pipeline.components.dataset.record import IGNORED
from tests.augment.ways import make_keys

pytestmark = pytest.mark.unit

COUNT, HEIGHT, WIDTH = 5, 40, 32
# Those two refuse boxes, and the crop is made while decoding.
WITH_BOXES = sorted(set(STEPS) - {"mixup", "cutmix", "random_resized_crop"})
MOVES = {
    "flip_horizontal": {"op": "flip_horizontal", "probability": 0.5},
    "flip_vertical": {"op": "flip_vertical", "probability": 0.5},
    "pad_and_crop": {"op": "pad_and_crop", "pad_px": 9, "mode": "constant"},
    "rotate": {"op": "rotate", "degrees": 40, "mode": "constant"},
    "rand_augment": {"op": "rand_augment"},
}


def draw_rectangles(seed):
    """Masks with a rectangle of 1 each, and the boxes around these: two, of which one is none."""
    generator = np.random.default_rng(seed)
    masks = np.zeros((COUNT, HEIGHT, WIDTH, 1), np.uint8)
    boxes = np.zeros((COUNT, 2, 4), np.float32)
    for number in range(COUNT):
        top, bottom = np.sort(generator.choice(HEIGHT + 1, 2, replace=False))
        left, right = np.sort(generator.choice(WIDTH + 1, 2, replace=False))
        masks[number, top:bottom, left:right] = 1
        boxes[number, 1] = [top / HEIGHT, left / WIDTH, bottom / HEIGHT, right / WIDTH]
    return masks, boxes


@functools.cache
def _function(names, is_compiled):
    steps = [read_step(MOVES.get(name, name)) for name in names]

    @tf.function(jit_compile=is_compiled)
    def run(images, masks, boxes, visible, keys):
        moved = apply_steps(Batch(images, masks, boxes, visible=visible), keys, steps)
        return moved.masks, moved.boxes, moved.visible

    return run


def move(names, seed, is_compiled=False):
    masks, boxes = draw_rectangles(seed)
    images = tf.repeat(tf.constant(masks * 200), 3, axis=-1)
    arguments = (images, tf.constant(masks), tf.constant(boxes), tf.ones([COUNT, 2]))
    moved = _function(tuple(names), is_compiled)(*arguments, make_keys(COUNT, seed))
    return masks, boxes, *(each.numpy() for each in moved)


def find_sides(mask):
    """Top, left, bottom and right of the pixels that are 1; None if there are none."""
    rows, columns = np.nonzero(mask[..., 0] == 1)
    if not len(rows):
        return None
    return np.array([rows.min(), columns.min(), rows.max() + 1, columns.max() + 1])


def test_all_steps_but_three_are_tried():
    assert len(WITH_BOXES) == len(STEPS) - 3 and set(MOVES) <= set(WITH_BOXES)


@given(st.sampled_from(sorted(MOVES)), st.integers(0, 2**32))
def test_a_box_follows_its_rectangle(name, seed):
    _, _, masks, boxes, visible = move([name], seed)
    for mask, box, share in zip(masks, boxes[:, 1], visible[:, 1], strict=True):
        sides, found = find_sides(mask), box * [HEIGHT, WIDTH, HEIGHT, WIDTH]
        if sides is not None:
            assert (found[:2] <= sides[:2] + 1.5).all() and (found[2:] >= sides[2:] - 1.5).all()
            # Of a turned rectangle, the corner that the box is around may be outside.
            if share == 1 or "flip" in name or name == "pad_and_crop":
                # Two moves, each of which may take the tip of a thin corner.
                atol = 4 if name == "rand_augment" else 2.5
                np.testing.assert_allclose(found, sides, atol=atol)
        elif found.any():  # Too thin for any pixel's middle.
            assert min(found[2:] - found[:2]) <= 1.5
    assert not boxes[:, 0].any()


@given(st.integers(0, 2**32))
def test_the_visible_share_is_that_of_the_pixels(seed):
    before, _, after, boxes, visible = move(["pad_and_crop"], seed)
    wanted = (after == 1).sum(axis=(1, 2, 3)) / (before == 1).sum(axis=(1, 2, 3))
    np.testing.assert_allclose(visible[:, 1], wanted, atol=2**-15)
    assert not visible[:, 0].any() and ((boxes[:, 1] > 0).any(axis=1) == (wanted > 0)).all()


@given(st.lists(st.sampled_from(WITH_BOXES), min_size=1, max_size=2), st.integers(0, 2**32))
def test_boxes_stay_in_the_image_and_only_moves_change_them(names, seed):
    _, before, _, boxes, visible = move(names, seed)
    assert boxes.dtype == np.float32 and boxes.shape == before.shape
    assert (boxes >= 0).all() and (boxes <= 1).all()
    assert (visible >= 0).all() and (visible <= 1).all()
    if not set(MOVES) & set(names):
        np.testing.assert_array_equal(boxes, before)
        assert (visible == 1).all()


@pytest.mark.parametrize("name", sorted(MOVES))
def test_compiled_or_not_the_bits_are_the_same(name):
    for seed in range(5):
        for plain, compiled in zip(move([name], seed), move([name], seed, True), strict=True):
            np.testing.assert_array_equal(plain, compiled)


def test_two_cuts_leave_the_product():
    batch = Batch(tf.zeros([1, 8, 8, 3], tf.uint8), visible=tf.ones([1, 2]))
    batch = replace_boxes(batch, tf.constant([[[-0.5, 0.0, 0.5, 1.0], [0.0, 0.0, 0.0, 0.0]]]))
    np.testing.assert_array_equal(batch.boxes, [[[0, 0, 0.5, 1], [0, 0, 0, 0]]])
    np.testing.assert_array_equal(batch.visible, [[0.5, 0]])
    batch = replace_boxes(batch, batch.boxes - [0.0, 0.5, 0.0, 0.5])
    np.testing.assert_array_equal(batch.boxes[0, 0], [0, 0, 0.5, 0.5])
    np.testing.assert_array_equal(batch.visible, [[0.25, 0]])


def test_the_share_inside():
    boxes = [[-1, -1, 1, 1], [0.5, 0.5, 1.5, 1.5], [2, 0, 3, 1], [0.2, 0.2, 0.2, 0.9], [0, 0, 1, 1]]
    found = shares_inside(tf.constant([boxes], tf.float32))
    np.testing.assert_array_equal(found, [[0.25, 0.25, 0, 0, 1]])


def test_a_box_that_only_touches_the_image_is_none():
    batch = Batch(tf.zeros([1, 8, 8, 3], tf.uint8), visible=tf.ones([1, 2]))
    third = tf.constant([[[0.0, 0.7, 0.5, 1.0], [0.1, 0.0, 0.5, 0.3]]])
    exact, aside = tf.cast(third, tf.float64), tf.constant([0, 0.3, 0, 0.3], tf.float64)
    right, left = replace_boxes(batch, exact + aside), replace_boxes(batch, exact - aside)
    assert not right.boxes[0, 0].numpy().any() and right.visible[0, 0] == 0
    assert not left.boxes[0, 1].numpy().any() and left.visible[0, 1] == 0


MASKS, ROWS, COLUMNS = 6, 13, 10
# Mixup refuses masks, and the crop is made while decoding.
WITH_MASKS = sorted(set(STEPS) - {"mixup", "random_resized_crop"})
GEOMETRIC = [
    {"op": "flip_horizontal", "probability": 1},
    {"op": "flip_vertical", "probability": 1},
    {"op": "pad_and_crop", "pad_px": 3, "mode": "constant", "fill": 255},
    {"op": "pad_and_crop", "pad_px": 3, "mode": "reflect"},
    {"op": "rotate", "degrees": 40, "mode": "constant", "fill": 255},
    {"op": "rotate", "degrees": 180, "mode": "reflect"},
    {"op": "cutmix", "probability": 1},
]


@functools.cache
def _compiled(names):
    steps = [read_step(name) for name in names]

    @tf.function(jit_compile=True)
    def run(images, masks, keys):
        return apply_steps(Batch(images, masks), keys, steps).masks

    return run


def _draw(seed, values):
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (MASKS, ROWS, COLUMNS, 3), np.uint8)
    masks = generator.choice(np.array(values, np.uint8), (MASKS, ROWS, COLUMNS, 1))
    return tf.constant(images), tf.constant(masks)


def test_all_steps_but_two_are_tried():
    assert len(WITH_MASKS) == len(STEPS) - 2


@given(st.sampled_from(WITH_MASKS), st.integers(0, 2**32), st.sets(st.integers(0, 255), min_size=1))
@pytest.mark.parametrize("is_compiled", [False, True])
def test_no_step_makes_a_value_that_was_not_there(is_compiled, name, seed, values):
    images, masks = _draw(seed, sorted(values))
    keys = make_keys(MASKS, seed)
    moved = (
        _compiled((name,))(images, masks, keys)
        if is_compiled
        else apply_steps(Batch(images, masks), keys, [read_step(name)]).masks
    )
    assert set(np.unique(moved)) <= set(np.unique(masks)) | {IGNORED}
    assert moved.shape == masks.shape and moved.dtype == tf.uint8


@pytest.mark.parametrize("seed", range(3))
def test_all_steps_after_each_other_neither(seed):
    names = tuple(name for name in STEPS if name in WITH_MASKS)
    images, masks = _draw(seed, [3, 7, 100])
    keys = make_keys(MASKS, seed)
    moved = apply_steps(Batch(images, masks), keys, [read_step(name) for name in names]).masks
    assert set(np.unique(moved)) <= {3, 7, 100, IGNORED}
    np.testing.assert_array_equal(_compiled(names)(images, masks, keys), moved)


def _regions(count, height, width):
    """Flat regions of the levels 0, 90 and 180: uint8 [count, height, width, 1]."""
    y, x = np.mgrid[0:height, 0:width]
    drawn = [
        np.where((y - 9 - n) ** 2 + (x - 14) ** 2 < 60, 90, np.where(x + n > y + 6, 180, 0))
        for n in range(count)
    ]
    return np.stack(drawn).astype(np.uint8)[..., None]


@pytest.mark.parametrize("step", GEOMETRIC, ids=lambda s: "-".join(map(str, list(s.values())[::2])))
def test_a_mask_drawn_as_its_image_stays_that_of_its_image(step):
    """Where an image's pixel is of one region only, its mask says which."""
    drawn, keys = _regions(12, 30, 26), make_keys(12, seed=4)
    after = apply_steps(Batch(tf.constant(drawn), tf.constant(drawn)), keys, [read_step(step)])
    images, masks = after.images.numpy(), after.masks.numpy()
    assert (images != drawn).any(axis=(1, 2, 3)).sum() >= 8
    is_flat = np.isin(images, [0, 90, 180, 255])
    if step["op"] == "rotate":  # Between two regions the bilinear image mixes; inside, never.
        assert is_flat.mean() > 0.6
    else:
        assert is_flat.all()
    # A mixed level may be one of the three by chance: those have such neighbours.
    differs = is_flat & (images != masks)
    assert differs.sum() <= (0 if step["op"] != "rotate" else 0.004 * differs.size)
