"""The pixels that a served model takes from a file are those that ingest stores of it."""

import functools
import io
import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from image_pipeline.components.images.color import read_orientation
from image_pipeline.components.images.options import DepthOptions
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from image_pipeline.components.served.decode import decode_image, take_views, trace_decoder
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.options import ViewOptions
from tests.served import files

pytestmark = pytest.mark.unit

BACKGROUND = (10, 200, 60)
OPAQUE, TRANSPARENT = files.opaque_files(), files.transparent_files()
FILES = OPAQUE | TRANSPARENT
TURNED = ["jpeg", "png", "webp", "png rgba", "png palette tRNS", "webp alpha", "webp lossless"]


@functools.cache
def make_decoder(channels=3):
    """As in an exported model: a graph for files of any kind."""
    spec = tf.TensorSpec([], tf.string)
    return tf.function(
        lambda file: decode_image(file, channels, BACKGROUND), input_signature=[spec]
    )


def serve(file, channels=3):
    return make_decoder(channels)(tf.constant(file)).numpy()


def store(file, channels=3, **options):
    """What ingest stores of a file without loss and evaluation decodes."""
    prepare = PrepareOptions(encoding="png", resize="none", alpha_background=BACKGROUND, **options)
    stored = prepare_image(file, prepare)
    return views.decode_image(tf.constant(stored.encoded), channels).numpy()


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_is_served_as_it_is_stored(name):
    np.testing.assert_array_equal(serve(FILES[name]), store(FILES[name]))


@pytest.mark.parametrize("name", TRANSPARENT)
def test_the_background_shows(name):
    shown = serve(TRANSPARENT[name])
    assert (np.abs(shown.astype(int) - BACKGROUND).max(axis=-1) <= 1).any()


@pytest.mark.parametrize("channels", [1, 3])
def test_16_bits_become_the_8_that_are_stored(channels):
    """Of gray, colour, and colour with alpha, which is not stretched."""
    low, high = depth = 20_000, 43_210
    decode = trace_decoder(channels, BACKGROUND, None, depth)
    for count in (1, 3, 4):
        file = files.encode_deep_png(count)
        stored = store(file, channels, depth=DepthOptions(low=low, high=high))
        np.testing.assert_array_equal(decode(tf.constant(file)), stored)
        assert (stored != store(file, channels)).any()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", TURNED)
def test_every_orientation_is_turned_upright(name, orientation):
    file = files.state_orientation(FILES[name], files.make_exif(orientation))
    with Image.open(io.BytesIO(file)) as opened:
        assert read_orientation(opened) == (orientation, ())  # ingest does see it
    np.testing.assert_array_equal(serve(file), store(file))


@pytest.mark.parametrize("name", [name for name in FILES if "jpeg" not in name])
def test_gray_is_that_of_evaluation(name):
    np.testing.assert_array_equal(serve(FILES[name], 1), store(FILES[name], 1))


@pytest.mark.parametrize("name", FILES)
def test_gray_is_within_a_level_of_what_is_stored_gray(name):
    difference = serve(FILES[name], 1).astype(int) - store(FILES[name], 1, color="gray")
    assert np.abs(difference).max() <= 1


@pytest.mark.parametrize("channels", [1, 3])
def test_cmyk_is_within_a_level(channels):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 4), dtype=np.uint8)
    file = files.save(Image.fromarray(pixels, "CMYK"), "JPEG", quality=95)
    difference = serve(file, channels).astype(int) - store(file, channels)
    assert np.abs(difference).max() <= 1


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("kind", [3, 4, 6, 13])
def test_exif_is_read_in_either_order_of_bytes(endian, kind):
    file = files.state_orientation(OPAQUE["jpeg"], files.make_exif(6, endian, kind))
    assert serve(file).shape == (files.WIDTH, files.HEIGHT, 3)
    np.testing.assert_array_equal(serve(file), store(file))


@given(
    name=st.sampled_from(["jpeg", "png", "webp"]),
    edits=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 255)), max_size=3),
    length=st.integers(0, 40),
)
def test_whatever_the_exif_holds_it_never_fails_and_is_what_ingest_reads(name, edits, length):
    exif = bytearray(files.make_exif(8))
    for place, value in edits:
        exif[place % len(exif)] = value
    file = files.state_orientation(OPAQUE[name], bytes(exif[:length]))
    np.testing.assert_array_equal(serve(file), store(file))


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"no image",
        b"RIFF\0\0\0\0WEBP",
        *(files.save(files.draw_palette(), kind) for kind in ("GIF", "BMP", "TIFF")),
        OPAQUE["jpeg"][:-40],
        OPAQUE["png"][:-40],
    ],
)
def test_what_is_no_whole_image_is_an_error(file):
    with pytest.raises(tf.errors.InvalidArgumentError):
        serve(file)


def test_an_animated_webp_is_refused_before_tensorflow_sees_it():
    """TensorFlow 2.21 writes past the end of its memory for one: "free(): invalid next size"."""
    frames = [Image.new("RGB", (8, 6), color) for color in ("red", "blue")]
    file = files.save(frames[0], "WEBP", save_all=True, append_images=frames[1:])
    with pytest.raises(tf.errors.InvalidArgumentError, match="animated WebP is not served"):
        serve(file)


def test_a_file_of_nothing_but_tiny_segments_ends_soon():
    hostile = b"\xff\xd8\xff" + b"\xfe\0\2\xff" * 100_000
    with pytest.raises(tf.errors.InvalidArgumentError):
        serve(hostile)


def test_the_view_of_a_turned_file_is_that_of_its_stored_copy():
    file = files.state_orientation(FILES["png rgba"], files.make_exif(7))
    view = ViewOptions(height_px=5, width_px=4, crop_fraction=0.9)
    served, stored = (views.eval_view(image, view) for image in (serve(file), store(file)))
    np.testing.assert_array_equal(served, stored)


@pytest.mark.parametrize("channels", [1, 3])
def test_cmyk_without_adobe_s_segment_is_inverted_all_the_same(channels):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 4), dtype=np.uint8)
    file = files.save(Image.fromarray(pixels, "CMYK"), "JPEG", quality=95)
    start = file.index(b"\xff\xee\0\x0eAdobe")
    bare = file[:start] + file[start + 16 :]
    difference = serve(bare, channels).astype(int) - store(bare, channels)
    assert np.abs(difference).max() <= 1


def test_exif_behind_the_frame_s_header_is_read():
    file = files.state_orientation(FILES["jpeg"], files.make_exif(6))
    start = file.index(b"\xff\xe1")
    end = start + 2 + int.from_bytes(file[start + 2 : start + 4], "big")
    scan = file.index(b"\xff\xda")
    moved = file[:start] + file[end:scan] + file[start:end] + file[scan:]
    with Image.open(io.BytesIO(moved)) as opened:
        assert read_orientation(opened) == (6, ())
    np.testing.assert_array_equal(serve(moved), store(file))
    np.testing.assert_array_equal(store(moved), store(file))


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
@pytest.mark.parametrize("level", [0, 1, 2, 256, 257, 65535])
def test_a_gray_png_s_transparent_level_is_read_by_its_low_bits(depth, level):
    width = 8 // depth * 2
    rows = b"".join(b"\0" + bytes([255, 0]) for _ in range(3))
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, 3, depth, 0, 0, 0, 0)),
        (b"tRNS", level.to_bytes(2, "big")),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    file = b"\x89PNG\r\n\x1a\n" + b"".join(
        len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")
        for name, data in chunks
    )
    white = np.repeat([True, False], width // 2)[np.newaxis, :, np.newaxis]
    expected = np.where(white, 255, 0) * np.ones((3, 1, 3), int)
    shown = level % 2**depth
    if shown in (0, 2**depth - 1):
        expected = np.where(white == (shown > 0), np.array(BACKGROUND), expected)
    np.testing.assert_array_equal(store(file), expected)
    np.testing.assert_array_equal(serve(file), expected)


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
