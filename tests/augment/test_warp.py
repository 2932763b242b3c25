import numpy as np
import pytest
import scipy.ndimage
import tensorflow as tf

from image_pipeline.components.augment.batch import clip_boxes
from image_pipeline.components.augment.geometry import (
    affine_coordinates,
    move_boxes,
    warp,
    warp_nearest,
)
from tests.augment.ways import make_batch

pytestmark = pytest.mark.unit

SIZES = [(7, 5, 3), (8, 8, 1), (1, 4, 3)]


def draw_coordinates(height, width, seed=0):
    """Coordinates in and far around an image, some of them whole or half-way: [4, 6, 9] each."""
    generator = np.random.default_rng(seed)
    rows = generator.uniform(-2.5 * height, 3.5 * height, (4, 6, 9))
    columns = generator.uniform(-2.5 * width, 3.5 * width, (4, 6, 9))
    rows[:, :2] = np.round(2 * rows[:, :2]) / 2
    columns[:, :2] = np.round(2 * columns[:, :2]) / 2
    return rows.astype(np.float32), columns.astype(np.float32)


def mirrored(place, length):
    """Which row or column stands at a place, if the image goes on mirrored."""
    while not 0 <= place < length:
        if length == 1:
            return 0
        place = -place if place < 0 else 2 * (length - 1) - place
    return place


def level_at(image, row, column, mode, fill):
    height, width = image.shape[:2]
    if mode == "reflect":
        return image[mirrored(row, height), mirrored(column, width)].astype(float)
    inside = 0 <= row < height and 0 <= column < width
    return image[row, column].astype(float) if inside else np.full(image.shape[2], float(fill))


def sample(image, row, column, mode, fill):
    """Bilinear, at coordinates that are multiples of 1/256."""
    top, left = int(np.floor(row)), int(np.floor(column))
    down, right = row - top, column - left
    return (
        level_at(image, top, left, mode, fill) * (1 - down) * (1 - right)
        + level_at(image, top, left + 1, mode, fill) * (1 - down) * right
        + level_at(image, top + 1, left, mode, fill) * down * (1 - right)
        + level_at(image, top + 1, left + 1, mode, fill) * down * right
    )


def to_steps(coordinates):
    return np.round(coordinates.astype(np.float64) * 256) / 256


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("mode", "fill"), [("reflect", 0), ("constant", 0), ("constant", 200)])
def test_images_are_sampled_as_by_hand(size, mode, fill):
    images = make_batch(4, *size).images
    rows, columns = draw_coordinates(*size[:2])
    sampled = warp(images, tf.constant(rows), tf.constant(columns), mode, fill)
    expected = [
        sample(images[place].numpy(), row, column, mode, fill)
        for place in range(4)
        for row, column in zip(
            to_steps(rows)[place].ravel(), to_steps(columns)[place].ravel(), strict=True
        )
    ]
    expected = np.round(expected).reshape(4, 6, 9, size[2])
    np.testing.assert_array_equal(sampled, expected)
    assert sampled.dtype == tf.uint8


@pytest.mark.parametrize(
    ("mode", "scipy_mode"), [("reflect", "mirror"), ("constant", "grid-constant")]
)
def test_steps_of_a_256th_pixel_are_at_most_one_level_off(mode, scipy_mode):
    images = make_batch(4, 7, 5).images
    rows, columns = draw_coordinates(7, 5)
    sampled = warp(images, tf.constant(rows), tf.constant(columns), mode, 50).numpy()
    for place in range(4):
        for channel in range(3):
            exact = scipy.ndimage.map_coordinates(
                images[place, :, :, channel].numpy().astype(float),
                [rows[place], columns[place]],
                order=1,
                mode={"reflect": "mirror", "constant": "grid-constant"}[mode],
                cval=50,
            )
            assert np.abs(sampled[place, :, :, channel] - exact).max() < 1.5


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("mode", "fill"), [("reflect", 0), ("constant", 0), ("constant", 9)])
def test_masks_take_the_nearest_pixel(size, mode, fill):
    masks = make_batch(4, *size[:2], 1).images
    rows, columns = draw_coordinates(*size[:2])
    nearest = warp_nearest(masks, tf.constant(rows), tf.constant(columns), fill, mode).numpy()
    differing = 0
    for place in np.ndindex(4, 6, 9):
        row, column = (to_steps(axis[place]) for axis in (rows, columns))
        # Half-way between two, the later one in the image as it is shown.
        candidates = {
            level_at(masks[place[0]].numpy(), r, c, mode, fill)[0]
            for r in {int(np.floor(row + 0.5)), int(np.ceil(row - 0.5))}
            for c in {int(np.floor(column + 0.5)), int(np.ceil(column - 0.5))}
        }
        assert nearest[place][0] in candidates
        differing += len(candidates) > 1
    assert 0 < differing < 4 * 6 * 9 / 2


def test_half_way_the_nearest_pixel_is_the_lower_or_right_one():
    mask = tf.reshape(tf.constant([1, 2, 3, 4], tf.uint8), [1, 2, 2, 1])
    half = tf.constant([[[0.5, 0.0]]])
    assert warp_nearest(mask, half, half[..., ::-1]).numpy().ravel().tolist() == [3, 2]


@pytest.mark.parametrize(("height", "width"), [(7, 5), (8, 8), (224, 160)])
def test_coordinates_are_the_matrix_times_the_pixel_from_the_centre(height, width):
    matrix = np.random.default_rng(3).uniform(-1.2, 1.2, (6, 2, 3))
    matrix[:, :, 2] *= width
    rows, columns = affine_coordinates(height, width, tf.constant(matrix))
    y, x = np.mgrid[:height, :width]
    middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
    pixels = np.stack([x - middle_x, y - middle_y, np.ones_like(x)])
    moved = np.einsum("bij,jhw->bihw", matrix, pixels)
    np.testing.assert_allclose(columns, moved[:, 0] + middle_x, atol=1e-3)
    np.testing.assert_allclose(rows, moved[:, 1] + middle_y, atol=1e-3)
    assert rows.dtype == columns.dtype == tf.float32


def test_a_matrix_of_whole_pixels_gives_whole_coordinates():
    matrix = tf.constant([[[0, 1, -2], [-1, 0, 3]]], tf.float64)  # a quarter turn and a shift
    rows, columns = affine_coordinates(6, 6, matrix)
    y, x = np.mgrid[:6, :6]
    np.testing.assert_array_equal(columns[0], y - 2)
    np.testing.assert_array_equal(rows[0], 5 - x + 3)


def test_a_matrix_moves_boxes_as_it_moves_pixels():
    # The new pixel shows the old one 2 to the left and 1 below: all goes 2 right and 1 up.
    matrix = tf.constant([[[1, 0, -2], [0, 1, 1]]], tf.float64)
    boxes = tf.constant(
        [
            [
                [0.25, 0.25, 0.5, 0.5],
                [0.0, 0.75, 0.5, 1.0],  # is pushed out to the right, by nothing more than its width
                [0.0, 0.5, 1.0, 1.0],
                [0.5, 0.5, 0.5, 0.75],  # no box
            ]
        ]
    )
    moved = clip_boxes(move_boxes(boxes, 8, 8, matrix))
    expected = [
        [0.125, 0.5, 0.375, 0.75],
        [0.0, 0.0, 0.0, 0.0],
        [0.0, 0.75, 0.875, 1.0],
        [0.0, 0.0, 0.0, 0.0],
    ]
    np.testing.assert_array_equal(moved[0], expected)


@pytest.mark.parametrize("matrix", [[[0.9, 0.3, 1.0], [-0.2, 1.1, -2.0]], [[1, 0.4, 0], [0, 1, 0]]])
def test_a_moved_box_fits_closely_around_its_moved_mask(matrix):
    mask = np.zeros((1, 60, 40, 1), np.uint8)
    mask[0, 20:35, 12:25] = 1
    box = tf.constant([[[20 / 60, 12 / 40, 35 / 60, 25 / 40]]], tf.float32)
    matrix = tf.constant([matrix], tf.float64)
    moved = warp_nearest(tf.constant(mask), *affine_coordinates(60, 40, matrix)).numpy()
    rows, columns = np.nonzero(moved[0, :, :, 0] == 1)
    expected = [rows.min(), columns.min(), rows.max() + 1, columns.max() + 1]
    found = move_boxes(box, 60, 40, matrix)[0, 0] * [60, 40, 60, 40]
    np.testing.assert_allclose(found, expected, atol=1.0)
