import io

import cv2
import hypothesis
import numpy as np
import pytest
import simplejpeg
from hypothesis import strategies
from PIL import Image

from image_pipeline.components.views.jpeg_tiles import cut_part
from tests.drawings import draw_noisy

pytestmark = pytest.mark.unit

SAMPLINGS = {
    name: getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{name}")
    for name in ("411", "420", "422", "440", "444")
}
DRI, SOF0 = b"\xff\xdd", b"\xff\xc0"


def write(size, interval, channels=3, sampling="420"):
    """A JPEG file with a marker behind each `interval` blocks."""
    pixels = draw_noisy(*size, channels)
    settings = [cv2.IMWRITE_JPEG_RST_INTERVAL, interval]
    settings += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, SAMPLINGS[sampling]]
    return cv2.imencode(".jpg", pixels, settings)[1].tobytes()


def decode(data, channels=3):
    return simplejpeg.decode_jpeg(data, "RGB" if channels == 3 else "GRAY", strict=True)


def take(pixels, top, left, height, width):
    return pixels[top : top + height, left : left + width]


TILED = write((200, 256), 4)
SCAN = TILED.index(b"\xff\xda")


@hypothesis.given(strategies.binary(max_size=60), strategies.integers(0, 700))
def test_whatever_a_header_says_a_part_is_cut_or_not(noise, place):
    data = TILED[:place] + noise + TILED[place + len(noise) :]
    part = cut_part(data, (200, 256), (20, 70, 30, 50))
    assert part is None or (part.top, part.left) <= (20, 70)


@strategies.composite
def windows(draw, height, width):
    top, left = (draw(strategies.integers(0, side - 1)) for side in (height, width))
    sides = (
        draw(strategies.integers(1, side - start)) for side, start in ((height, top), (width, left))
    )
    return top, left, *sides


@hypothesis.given(strategies.data())
def test_the_pixels_of_a_window_are_those_of_the_whole_image(data):
    size = data.draw(strategies.tuples(strategies.integers(1, 400), strategies.integers(1, 400)))
    interval = data.draw(strategies.integers(1, 60))
    channels = data.draw(strategies.sampled_from([1, 3]))
    sampling = data.draw(strategies.sampled_from(sorted(SAMPLINGS)))
    window = data.draw(windows(*size))
    encoded = write(size, interval, channels, sampling)
    part = cut_part(encoded, size, window)
    if part is not None:
        place = (window[0] - part.top, window[1] - part.left, *window[2:])
        found = take(decode(part.encoded, channels), *place)
        np.testing.assert_array_equal(found, take(decode(encoded, channels), *window))


@pytest.mark.parametrize(
    ("window", "place", "size"),
    [
        ((20, 70, 30, 50), (16, 64), (48, 64)),  # Tiles of 16 x 64 pixels.
        ((16, 64, 30, 50), (0, 0), (48, 128)),  # The seam reaches the tiles before,
        ((18, 66, 28, 60), (16, 64), (32, 64)),
        ((18, 66, 29, 61), (16, 64), (48, 128)),  # and those behind.
        ((0, 0, 1, 1), (0, 0), (16, 64)),
        ((199, 250, 1, 1), (192, 192), (8, 64)),  # The last ones are smaller.
    ],
)
@pytest.mark.parametrize("as_view", [False, True])
def test_no_more_is_cut_than_is_needed(window, place, size, as_view):
    data = write((200, 256), 4)
    part = cut_part(memoryview(b"..." + data)[3:] if as_view else data, (200, 256), window)
    assert (part.top, part.left) == place
    assert decode(part.encoded).shape[:2] == size
    assert len(part.encoded) < len(data) / 2


def test_tiles_of_several_rows_are_cut_too():
    data = write((300, 256), 48)
    part = cut_part(data, (300, 256), (100, 0, 40, 256))
    assert (part.top, part.left, decode(part.encoded).shape) == (96, 0, (48, 256, 3))


def test_gray_files_have_smaller_blocks():
    data = write((200, 256), 8, channels=1)
    part = cut_part(data, (200, 256), (20, 70, 30, 50))
    assert (part.top, part.left) == (16, 64)
    assert decode(part.encoded, 1).shape == (40, 64, 1)


def test_what_stands_around_the_image_does_not_count():
    data, window = write((200, 256), 4), (0, 0, 9, 9)
    comment = b"\xff\xe1\x00\x08" + DRI + b"\x00\x04\x00\x07"
    found = cut_part(data[:2] + comment + data[2:] + b"\xff\xd0 more", (200, 256), window)
    assert found.encoded.replace(comment, b"") == cut_part(data, (200, 256), window).encoded


@pytest.mark.parametrize("thumbnail", [b"\xff\xda\x00\x04\x00\x07", bytes(2000)])
def test_a_file_that_begins_with_a_thumbnail_is_not_cut(thumbnail):
    before = b"\xff\xd8\xff\xe1" + (len(thumbnail) + 2).to_bytes(2, "big") + thumbnail
    data = before + write((200, 256), 4)[2:]
    assert decode(data).shape == (200, 256, 3)
    assert cut_part(data, (200, 256), (0, 0, 9, 9)) is None


def save(**options):
    target = io.BytesIO()
    Image.fromarray(draw_noisy(200, 256)).save(target, "JPEG", **options)
    return target.getvalue()


def replace_in_frame(place, value):
    """The file with one byte of its frame's header changed; `place` counts from the marker."""
    data = bytearray(TILED)
    data[data.index(SOF0) + place] = value
    if place == 9:
        data[SCAN + 4] = value
    if place == 11:  # Of all three colours.
        data[data.index(SOF0) + 14] = data[data.index(SOF0) + 17] = value
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        write((200, 256), 0),
        write((200, 256), 5),  # No part of a row of sixteen blocks.
        write((200, 256), 24),
        save(restart_marker_blocks=4, progressive=True),
        b"",
        b"\xff\xd8",
        b"\x89PNG\r\n" + TILED,
        TILED[:SCAN],
        TILED[:-2],
        TILED[:-2] + b"\xff\xd9"[:1],
        TILED.replace(b"\xff\xd3", b"\xff\xd4", 1),
        TILED.replace(b"\xff\xd3", b"", 1),
        TILED.replace(DRI + b"\x00\x04\x00\x04", DRI + b"\x00\x04\x00\x02"),
        TILED.replace(b"\xff\xdb", b"\xfe\xdb", 1),
        TILED[: SCAN + 4] + b"\x01" + TILED[SCAN + 5 :],  # A scan of one of the colours.
        TILED.replace(SOF0, b"\xff\xc9"),
        TILED[:SCAN] + b"\xff\xda\x01\x0c" + TILED[SCAN + 4 :],  # Its length is a lie.
        TILED[: SCAN + 5],
        replace_in_frame(9, 0),  # no colours
        replace_in_frame(11, 0x20),  # sampled not at all: down, and across
        replace_in_frame(11, 0x02),
        replace_in_frame(3, 2),  # a short frame
    ],
)
def test_other_files_are_not_cut(data):
    assert cut_part(data, (200, 256), (0, 0, 10, 10)) is None
    assert cut_part(TILED, (200, 256), (0, 0, 10, 10)) is not None


def test_a_file_of_another_size_is_not_cut():
    assert cut_part(TILED, (256, 200), (0, 0, 10, 10)) is None


@pytest.mark.parametrize(("height", "is_cut"), [(142, True), (143, False)])
def test_nothing_is_cut_to_leave_out_a_little(height, is_cut):
    part = cut_part(write((192, 256), 16), (192, 256), (0, 0, height, 256))
    assert (part is not None) == is_cut  # At least 48 rows of 192 are left out.
