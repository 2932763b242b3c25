"""The pixels that a served model draws of a WAV file are those that ingest stores of it."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.images.sound import SoundOptions
from image_pipeline.components.images.sound import decode_sound as draw_stored
from image_pipeline.components.served.decode import decode_image, decode_sound, take_views
from image_pipeline.components.served.kinds import explain_unserved
from tests.served.files import opaque_files
from tests.sounds import encode

pytestmark = pytest.mark.unit

SMALL = SoundOptions(sample_rate_hz=8_000, duration_s=0.2, mel_bins=20, low_hz=0)
CENTERED = SoundOptions(duration_s=0.3, align="center", high_hz=7_000, floor_db=-60)
WHITE = (255, 255, 255)
GOOD = encode(np.full(100, 0.5))
NOISE = np.random.default_rng(0).uniform(-1, 1, 3_000)


@functools.cache
def make_decoder(options):
    """As in an exported model: a graph."""
    spec = tf.TensorSpec([], tf.string)
    return tf.function(lambda file: decode_sound(file, options, 1), input_signature=[spec])


def serve(data, options):
    return make_decoder(options)(tf.constant(data)).numpy()[..., 0]


@given(
    rate_hz=st.sampled_from([8_000, 16_000]),
    frames=st.integers(1, 20_000),
    channels=st.sampled_from([1, 2, 8]),
    level=st.floats(-6, 0),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_length_is_served_as_it_is_stored(rate_hz, frames, channels, level, seed):
    samples = np.random.default_rng(seed).uniform(-1, 1, (frames, channels)) * 10**level
    data = encode(samples, rate_hz)
    options = SMALL if rate_hz == 8_000 else CENTERED
    np.testing.assert_array_equal(serve(data, options), draw_stored(data, options)[0])


@given(
    edits=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=4),
    length=st.integers(12, 244),
)
def test_what_is_served_of_a_damaged_file_is_what_ingest_stores(edits, length):
    data = bytearray(GOOD)
    for place, value in edits:
        data[place] = value
    hurt = bytes(data[:length])
    try:
        drawn = serve(hurt, SMALL)
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):  # Its message quotes the file.
        return
    np.testing.assert_array_equal(drawn, draw_stored(hurt, SMALL)[0])


NOT_SERVED = [
    *(encode(NOISE, 8_000, "WAV", kind) for kind in ("PCM_U8", "PCM_24", "PCM_32", "FLOAT")),
    encode(NOISE, 11_025),
    encode(NOISE, 8_000, "WAVEX"),
    # As a program writes it to a pipe, and behind a chunk of an odd size.
    GOOD[:4] + b"\xff" * 4 + GOOD[8:40] + b"\xff" * 4 + GOOD[44:],
    GOOD[:36] + b"LIST\3\0\0\0abc\0" + GOOD[36:],
    encode(NOISE, kind="FLAC"),
    b"ID3\3" + bytes(9),
]


@pytest.mark.parametrize("data", NOT_SERVED[:8])
def test_what_tensorflow_does_not_read_is_refused(data):
    assert draw_stored(data, SMALL)[0].any()
    with pytest.raises(tf.errors.InvalidArgumentError):
        serve(data, SMALL)


def test_a_bad_sound_costs_its_own_row():
    good = [GOOD, opaque_files()["png"]]
    files = tf.constant([*good, GOOD[:-1], b"", *NOT_SERVED])
    shape = (SMALL.mel_bins, SMALL.columns, 1)

    def view(file):
        return tf.image.resize_with_crop_or_pad(decode_image(file, 1, WHITE, SMALL), *shape[:2])

    explain = functools.partial(explain_unserved, sound=SMALL)
    drawn, errors = take_views(view, files, tf.zeros(shape, tf.uint8), explain)
    found = errors.numpy().tolist()
    assert found[:4] == [b"", b"", b"corrupt", b"empty"]
    assert set(found[4:]) == {
        b"unsupported: a served model draws plain WAV files of 16-bit PCM at 8000 Hz; convert it "
        b"(ffmpeg -i FILE -c:a pcm_s16le -ar 8000 FILE.wav), or ask `image-pipeline predict`, "
        b"which decodes it as ingest does"
    }
    np.testing.assert_array_equal(drawn[0, ..., 0], draw_stored(GOOD, SMALL)[0])
    without = explain_unserved(tf.constant([GOOD, *NOT_SERVED])).numpy()
    assert without.tolist() == [b"not_an_image"] * 11
