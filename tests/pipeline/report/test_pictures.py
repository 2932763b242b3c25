import base64
import copy
import dataclasses
import io

import numpy as np
import pytest
from PIL import Image, ImageFile

from image_pipeline.components.dataset.lists import Quarantined
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.ingest.groups import hash_gray
from image_pipeline.report.pictures import Pictures, decode_what_can_be, make_thumbnail
from image_pipeline.report.pixels import (
    describe_pixels,
    measure_image,
    measure_images,
    shrink,
    stack_tiny,
)
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def pictures(data, data_dir):
    return Pictures(data, str(data_dir))


def test_a_record_is_shown_with_all_that_is_known_of_it(pictures, data):
    row = data.find_rows(["dog/side.jpg"])["dog/side.jpg"]
    shown = pictures.of_row(row, prediction="cat (75.0 %)", note="any")
    assert (shown.path, shown.label, shown.prediction) == ("dog/side.jpg", "dog", "cat (75.0 %)")
    assert shown.split == data.splits[data.split[row]] and shown.note == "any"
    assert shown.uri == Pictures(data, "").draw_row(row) and shown.reason == ""


def test_files_that_became_no_record_are_shown_as_far_as_they_can_be(pictures):
    copy = pictures.of_copy("cat/copy.png", None, None, "another label")
    assert (copy.uri, copy.label, copy.split, copy.note) == (None, "", "", "another label")
    rejected = pictures.of_rejected(Quarantined("a.png", "not_an_image", "is text", 4, None))
    assert (rejected.uri, rejected.reason, rejected.note) == (None, "not_an_image", "is text")


def test_what_is_stored_of_files_with_the_same_bytes_is_of_its_split(pictures, data):
    row = data.find_rows(["cat/001.png"])["cat/001.png"]
    stored = pictures.of_copy("cat/001.png", "cat", row)
    copy = pictures.of_copy("cat/copy.png", "cat", row)
    other = pictures.of_copy("dog/copy.png", "dog", row, "another label")
    assert stored.split == data.splits[data.split[row]] and copy.split == other.split == ""
    assert [each.names_json for each in (stored, copy, other)] == ['["cat"]', '["cat"]', '["dog"]']


def read_uri(uri):
    kind, _, text = uri.removeprefix("data:image/").partition(";base64,")
    return kind, Image.open(io.BytesIO(base64.b64decode(text)))


def test_small_images_are_kept_pixel_by_pixel_and_large_ones_shrunk():
    kind, image = read_uri(make_thumbnail(draw(1)))
    assert kind == "png"
    np.testing.assert_array_equal(np.asarray(image), draw(1))
    kind, image = read_uri(make_thumbnail(draw(1, 320, 640)))
    assert (kind, image.size) == ("webp", (320, 160))
    kind, image = read_uri(make_thumbnail(draw(1, 320, 640)[..., :1]))
    gray = np.asarray(image).astype(int)
    assert image.size == (320, 160) and np.abs(gray - gray[..., :1]).max() <= 1


def test_shrinking_averages_and_never_enlarges():
    pixels = np.repeat(np.array([[[0], [100]]], np.uint8), 2, axis=0)
    np.testing.assert_array_equal(shrink(pixels, 1), [[[50]]])
    assert shrink(pixels, 8) is pixels
    assert shrink(np.zeros((1, 500, 3), np.uint8), 10).shape == (1, 10, 3)


def test_what_can_be_decoded_of_a_damaged_file_is():
    file = io.BytesIO()
    Image.fromarray(draw(1, 64, 64)).save(file, "JPEG")
    assert decode_what_can_be(file.getvalue()[:-500]).shape == (64, 64, 3)
    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    assert decode_what_can_be(b"text") is None
    huge = encode_png(np.zeros((1, 1, 3), np.uint8)).replace(
        b"\0\0\0\x01\0\0\0\x01", b"\0\1\0\0\0\1\0\0"
    )
    assert decode_what_can_be(huge) is None


def test_thumbnails_of_rows_and_of_the_quarantine(pictures, data, data_dir):
    row = data.find_rows(["cat/000.png"])["cat/000.png"]
    _, image = read_uri(pictures.draw_row(row))
    np.testing.assert_array_equal(np.asarray(image), draw(0))
    assert pictures.draw_row(row) is pictures.draw_row(row)
    kept = [path.name for path in (data_dir / "quarantine").iterdir()]
    made = [pictures.draw_quarantined(name) for name in kept]
    assert sorted(uri is None for uri in made) == [False, True]  # the cut JPEG, and the text
    assert pictures.draw_quarantined(None) is None
    assert pictures.draw_quarantined("0" * 64) is None


def test_no_copy_of_the_quarantine_leads_out_of_the_data_set(data, data_dir, tmp_path):
    (tmp_path / "data" / "quarantine").mkdir(parents=True)
    Image.fromarray(draw(1)).save(tmp_path / "private.png")
    (tmp_path / "data" / "quarantine" / ("0" * 64)).symlink_to(tmp_path / "private.png")
    pictures = Pictures(data, str(tmp_path / "data"))
    assert pictures.draw_quarantined("0" * 64) is None
    assert pictures.draw_quarantined("../../private.png") is None


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
    def take(rows):  # Of one only the end of the file, which is not an image.
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
