import base64
import io

import numpy as np
import pytest
from PIL import Image, ImageFile

from image_pipeline.report.pixels import shrink
from image_pipeline.report.thumbnails import Thumbnails, decode_what_can_be, make_thumbnail
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.beam


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


def test_thumbnails_of_rows_and_of_the_quarantine(data, data_dir):
    thumbnails = Thumbnails(data, str(data_dir))
    row = data.find_rows(["cat/000.png"])["cat/000.png"]
    _, image = read_uri(thumbnails.of_row(row))
    np.testing.assert_array_equal(np.asarray(image), draw(0))
    assert thumbnails.of_row(row) is thumbnails.of_row(row)
    assert thumbnails.of_row(None) is None
    kept = [path.name for path in (data_dir / "quarantine").iterdir()]
    made = [thumbnails.of_quarantined(name) for name in kept]
    assert sorted(uri is None for uri in made) == [False, True]  # the cut JPEG, and the text
    assert thumbnails.of_quarantined(None) is None
    assert thumbnails.of_quarantined("0" * 64) is None


def test_no_copy_of_the_quarantine_leads_out_of_the_data_set(data, data_dir, tmp_path):
    (tmp_path / "data" / "quarantine").mkdir(parents=True)
    Image.fromarray(draw(1)).save(tmp_path / "private.png")
    (tmp_path / "data" / "quarantine" / ("0" * 64)).symlink_to(tmp_path / "private.png")
    thumbnails = Thumbnails(data, str(tmp_path / "data"))
    assert thumbnails.of_quarantined("0" * 64) is None
    assert thumbnails.of_quarantined("../../private.png") is None
