import copy
import dataclasses

import numpy as np
import pytest

from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.ingest.groups import hash_gray
from image_pipeline.report.pictures import Pictures
from image_pipeline.report.pixels import describe_pixels, measure_image, measure_images, stack_tiny

pytestmark = pytest.mark.beam


def test_pixels_are_measured_exactly(data):
    pixels = describe_pixels(data, measure_images(data))
    stored = [data.read_pixels(row).reshape(-1, 3) for row in range(23)]
    joined = np.concatenate(stored).astype(np.float64)
    assert (pixels.images, pixels.records, pixels.undecodable) == (23, 23, 0)
    for number, channel in enumerate(pixels.channels):
        assert channel.name == ("red", "green", "blue")[number]
        assert channel.mean == pytest.approx(joined[:, number].mean(), rel=1e-12)
        assert channel.std == pytest.approx(joined[:, number].std(), rel=1e-12)
        assert channel.counts == np.bincount(joined[:, number].astype(int), minlength=256).tolist()
    assert sum(pixels.brightness.counts) == 23


def test_a_sample_is_chosen_by_record_id_and_is_always_the_same(data):
    ids = [data.index.record_id[row].tobytes().hex() for row in range(23)]
    expected = sorted(range(23), key=lambda row: ids[row])[:5]
    assert data.choose_rows(5).tolist() == sorted(expected)
    pixels = describe_pixels(data, measure_images(data, most=5))
    assert (pixels.images, pixels.records) == (5, 23)
    shown = {each.row for images in pixels.extremes.values() for each in images}
    assert shown <= set(expected)


def test_extremes_are_the_ends_of_the_distributions(data):
    pixels = describe_pixels(data, measure_images(data))
    figures = [measure_image(row, data.read_pixels(row)) for row in range(23)]
    brightness = [each.brightness for each in figures]
    extremes = pixels.extremes
    assert [each.row for each in extremes["darkest"]] == np.argsort(brightness)[:6].tolist()
    assert extremes["brightest"][0].value == max(brightness) == pixels.brightness.max
    assert extremes["sharpest"][0].value == max(each.sharpness for each in figures)
    # The two look-alikes are the only smooth ones.
    names = {data.name_source(each.row) for each in extremes["blurriest"][:2]}
    assert names == {"cat/smooth.png", "dog/smooth.png"}


def test_brightness_and_sharpness_of_known_pixels():
    flat = measure_image(0, np.full((4, 4, 3), 100, np.uint8))
    assert (flat.brightness, flat.sharpness) == (100, 0)
    # By the Laplacian's 3 × 3 kernel, with mirrored borders, every pixel gets 4 · ±200.
    board = np.indices((4, 4)).sum(axis=0) % 2 * 200
    checked = measure_image(0, board.astype(np.uint8)[..., None])
    assert (checked.brightness, checked.sharpness) == (100, 800**2)
    assert checked.histogram.shape == (1, 256) and checked.histogram[0, [0, 200]].tolist() == [8, 8]


def test_of_a_large_image_every_so_many_pixels_are_counted():
    pixels = np.zeros((2, 1025, 1), np.uint8)
    pixels[0, ::3] = 255
    assert measure_image(0, pixels).histogram[0, [0, 255]].tolist() == [0, 342]


def test_an_image_that_cannot_be_decoded_is_counted_and_has_no_picture(data, data_dir):
    def take(rows):  # Of one only the end of the file, which is no image.
        found = data.index.take(rows)
        return found._replace(image_length=np.where(rows == 4, 20, found.image_length))

    index = copy.copy(data.index)
    index.take = take
    damaged = dataclasses.replace(data, index=index, records=StoredRecords(index))
    pixels = describe_pixels(damaged, measure_images(damaged))
    assert (pixels.images, pixels.undecodable) == (22, 1)
    assert Pictures(damaged, str(data_dir)).draw_row(4) is None


def test_images_are_compared_by_their_hash_and_by_their_colours_at_eight_pixels():
    pixels = np.repeat(np.repeat(np.arange(192, dtype=np.uint8).reshape(8, 8, 3), 4, 0), 4, 1)
    measured = measure_image(0, pixels)
    np.testing.assert_array_equal(measured.tiny, np.arange(192).reshape(8, 8, 3))
    gray = measure_image(1, pixels[..., :1])
    np.testing.assert_array_equal(gray.tiny, np.repeat(measured.tiny[..., :1], 3, axis=2))
    assert gray.perceptual_hash == hash_gray(pixels[..., 0])
    np.testing.assert_array_equal(
        stack_tiny([measured, gray])[0], np.arange(192, dtype=np.float32) / np.float32(255)
    )
