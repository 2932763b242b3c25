"""The pixels that a served model draws of a WAV file are those that ingest stores of it."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.sound import decode_sound as draw_stored
from image_pipeline.components.images.spectrogram import SoundOptions
from image_pipeline.components.served.checked import take_views
from image_pipeline.components.served.decode import decode_image
from image_pipeline.components.served.kinds import explain_unserved
from image_pipeline.components.served.sound import decode_sound
from tests.served.files import opaque_files
from tests.sounds import build_wav, encode

pytestmark = pytest.mark.unit

SMALL = SoundOptions(sample_rate_hz=8_000, duration_s=0.2, mel_bins=20, low_hz=0)
CENTERED = SoundOptions(duration_s=0.3, align="center", high_hz=7_000, floor_db=-60)
WHITE = (255, 255, 255)
GOOD = encode(np.full(100, 0.5))


@functools.cache
def make_decoder(options):
    """As in an exported model: a graph."""
    spec = tf.TensorSpec([], tf.string)
    return tf.function(lambda file: decode_sound(file, options, 1), input_signature=[spec])


def serve(data, options):
    return make_decoder(options)(tf.constant(data)).numpy()[..., 0]


@pytest.mark.parametrize("kind", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
@pytest.mark.parametrize("container", ["WAV", "WAVEX"])
@pytest.mark.parametrize("channels", [1, 2, 8])
def test_every_kind_of_file_is_served_as_it_is_stored(kind, container, channels):
    samples = np.random.default_rng(0).uniform(-1, 1, (3_000, channels))
    data = encode(samples, 8_000, container, kind)
    for options in (SMALL, CENTERED):
        drawn = draw_stored(data, options)[0]
        assert np.ptp(drawn) > 20
        np.testing.assert_array_equal(serve(data, options), drawn)


@given(
    rate_hz=st.sampled_from([8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 16_001, 1_000]),
    frames=st.integers(1, 20_000),
    level=st.floats(-6, 0),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_rate_and_length_is_served_as_it_is_stored(rate_hz, frames, level, seed):
    samples = np.random.default_rng(seed).uniform(-1, 1, frames) * 10**level
    data = encode(samples, rate_hz)
    for options in (SMALL, CENTERED):
        np.testing.assert_array_equal(serve(data, options), draw_stored(data, options)[0])


@given(
    edits=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=4),
    length=st.integers(12, 244),
)
def test_what_ingest_refuses_is_refused(edits, length):
    data = bytearray(GOOD)
    for place, value in edits:
        data[place] = value
    hurt = bytes(data[:length])
    if not hurt.startswith(b"RIFF"):
        return
    try:
        expected = draw_stored(hurt, SMALL)[0]
    except BadImage:
        with pytest.raises(tf.errors.InvalidArgumentError):
            serve(hurt, SMALL)
    else:
        np.testing.assert_array_equal(serve(hurt, SMALL), expected)


@pytest.mark.parametrize(
    "data",
    [
        build_wav(rate_hz=0),
        build_wav(rate_hz=2**32 - 1),
        build_wav(channels=0),
        build_wav(tag=7, block_bytes=1),
        build_wav(b""),
        build_wav(before=b"none\0\0\0\0" * 2_000),
        build_wav(np.full(9, np.nan, "<f4").tobytes(), tag=3, block_bytes=4),
        build_wav(np.full(9, 2e4, "<f8").tobytes(), tag=3, block_bytes=8),
        b"RIFF\0\0\0\0WAVE",
    ],
)
def test_hostile_files_are_refused(data):
    with pytest.raises(tf.errors.InvalidArgumentError):
        serve(data, SMALL)


def test_a_bad_sound_costs_its_own_row():
    flac = encode(np.full(100, 0.5), kind="FLAC")
    files = tf.constant([GOOD, GOOD[:-1], flac, b"", opaque_files()["png"], b"ID3\3" + bytes(9)])
    shape = (SMALL.mel_bins, SMALL.columns, 1)

    def view(file):
        return tf.image.resize_with_crop_or_pad(decode_image(file, 1, WHITE, SMALL), *shape[:2])

    explain = functools.partial(explain_unserved, with_sounds=True)
    drawn, errors = take_views(view, files, tf.zeros(shape, tf.uint8), explain)
    assert errors.numpy().tolist() == [
        *(b"", b"corrupt", b"unsupported", b"empty", b"", b"unsupported"),
    ]
    np.testing.assert_array_equal(drawn[0, ..., 0], draw_stored(GOOD, SMALL)[0])
    assert explain_unserved(files[:3]).numpy().tolist() == [b"not_an_image"] * 3
