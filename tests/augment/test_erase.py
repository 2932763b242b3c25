import math

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.erase import cutout, random_erasing
from image_pipeline.components.augment.options import Cutout, RandomErasing
from tests.augment.ways import make_batch, make_keys, run_in_all_ways

pytestmark = pytest.mark.unit

BOXES = [[0.0, 0.0, 0.5, 0.5]]


def cut_out_by_hand(image, number_row, number_column, size_px, fill):
    height, width = image.shape[:2]
    top = math.floor(number_row * height) - size_px // 2
    left = math.floor(number_column * width) - size_px // 2
    hidden = image.copy()
    for row in range(max(top, 0), min(top + size_px, height)):
        for column in range(max(left, 0), min(left + size_px, width)):
            hidden[row, column] = fill
    return hidden


def erase_by_hand(image, numbers, options):
    """torchvision's RandomErasing, with the numbers of this project."""
    height, width = image.shape[:2]
    chosen, at_row, at_column, *sizes = (float(number) for number in numbers)
    erased = image.copy()
    if chosen >= options.probability:
        return erased
    least, greatest = (math.log(aspect) for aspect in options.aspect)
    for attempt in range(10):
        share = options.area[0] + sizes[attempt] * (options.area[1] - options.area[0])
        area = height * width * share
        aspect = math.exp(least + sizes[10 + attempt] * (greatest - least))
        h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if h < height and w < width:
            top = math.floor(at_row * (height - h + 1))
            left = math.floor(at_column * (width - w + 1))
            erased[top : top + h, left : left + w] = options.fill
            break
    return erased


def check_erasing(options, size, count=24):
    """Runs random_erasing and compares it with the one by hand; gives what became of the images."""
    batch = make_batch(count, *size, with_masks=True, boxes=BOXES)
    keys = make_keys(count)
    erased = run_in_all_ways(random_erasing, batch, keys, options)
    for place, numbers in enumerate(draws.uniform(keys, 23).numpy()):
        expected = erase_by_hand(batch.images[place].numpy(), numbers, options)
        np.testing.assert_array_equal(erased.images[place], expected)
    np.testing.assert_array_equal(erased.masks, batch.masks)
    np.testing.assert_array_equal(erased.boxes, batch.boxes)
    return batch.images.numpy(), erased.images


@pytest.mark.parametrize("size_px", [1, 2, 3, 8, 20])
@pytest.mark.parametrize("fill", [0, 128])
@pytest.mark.parametrize("size", [(7, 5, 3), (8, 8, 1)])
def test_a_square_around_a_random_pixel_is_filled(size, fill, size_px):
    batch, keys = make_batch(10, *size, with_masks=True, boxes=BOXES), make_keys(10)
    hidden = run_in_all_ways(cutout, batch, keys, Cutout(size_px=size_px, fill=fill))
    for place, numbers in enumerate(draws.uniform(keys, 2).numpy().astype(float)):
        expected = cut_out_by_hand(batch.images[place].numpy(), *numbers, size_px, fill)
        np.testing.assert_array_equal(hidden.images[place], expected)
    np.testing.assert_array_equal(hidden.masks, batch.masks)
    np.testing.assert_array_equal(hidden.boxes, batch.boxes)


@pytest.mark.parametrize("size_px", [5, 6])
def test_the_square_has_its_size_inside_and_less_at_the_edges(size_px):
    white = tf.fill([600, 32, 32, 1], tf.constant(255, tf.uint8))
    black = cutout(Batch(white), make_keys(600), Cutout(size_px=size_px)).images[..., 0] == 0
    rows, columns = tf.reduce_any(black, axis=2).numpy(), tf.reduce_any(black, axis=1).numpy()
    inside = ~(rows[:, [0, -1]].any(axis=1) | columns[:, [0, -1]].any(axis=1))
    areas = tf.reduce_sum(tf.cast(black, tf.int32), axis=[1, 2]).numpy()
    assert (areas[inside] == size_px**2).all() and inside.mean() > 0.5
    assert areas.min() < size_px**2 and areas.min() >= (size_px // 2) ** 2
    # Every pixel is a centre equally often, so a row at the edge is hidden half as often as others.
    hidden = rows.mean(axis=0)
    assert hidden[8:24].mean() == pytest.approx(size_px / 32, rel=0.1)
    assert hidden[[0, -1]].mean() == pytest.approx(size_px / 64, rel=0.35)


@pytest.mark.parametrize("size", [(7, 5, 3), (8, 8, 1), (21, 30, 3)])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"probability": 1.0},
        {"probability": 1.0, "area": (0.3, 0.9)},
        {"probability": 1.0, "aspect": (1.0, 1.0)},
        {"probability": 1.0, "fill": 200},
    ],
)
def test_rectangles_are_erased_by_torchvisions_rule(changes, size):
    before, after = check_erasing(RandomErasing(**changes), size)
    assert (before != after).any()


def test_the_probability_says_how_many_images_are_erased():
    before, after = check_erasing(RandomErasing(probability=0), (8, 8, 3))
    np.testing.assert_array_equal(before, after)
    before, after = check_erasing(RandomErasing(probability=1), (32, 32, 3))
    assert (before != after).any(axis=(1, 2, 3)).all()
    before, after = check_erasing(RandomErasing(probability=0.4), (32, 32, 3), count=200)
    assert 0.3 < (before != after).any(axis=(1, 2, 3)).mean() < 0.5


def test_a_rectangle_that_never_fits_leaves_the_image_whole():
    options = RandomErasing(probability=1, area=(1, 1), aspect=(1, 1))
    before, after = check_erasing(options, (8, 8, 3))
    np.testing.assert_array_equal(before, after)


def test_the_area_and_the_aspect_ratio_are_within_their_bounds():
    white = tf.fill([300, 100, 100, 1], tf.constant(255, tf.uint8))
    options = RandomErasing(probability=1, area=(0.1, 0.2), aspect=(2, 3))
    black = random_erasing(Batch(white), make_keys(300), options).images.numpy()[..., 0] == 0
    heights, widths = black.any(axis=2).sum(axis=1), black.any(axis=1).sum(axis=1)
    areas = black.sum(axis=(1, 2))
    np.testing.assert_array_equal(areas, heights * widths)
    assert 0.095 * 1e4 < areas.min() < 0.105 * 1e4 and 0.195 * 1e4 < areas.max() < 0.205 * 1e4
    aspects = heights / widths
    assert 1.9 < aspects.min() < 2.1 and 2.9 < aspects.max() < 3.1
