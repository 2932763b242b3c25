"""The samples of WAV files of every kind, as libsndfile reads them."""

import io
import struct

import numpy as np
import pytest
import soundfile

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.wav import read_wav_header, read_wav_samples
from tests.sounds import build_wav, encode

pytestmark = pytest.mark.unit

SAMPLES = np.random.default_rng(0).uniform(-1, 1, (301, 2))
KINDS = ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"]


@pytest.mark.parametrize("container", ["WAV", "WAVEX"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [1, 2, 8])
def test_samples_are_those_of_libsndfile(kind, container, channels):
    data = encode(np.resize(SAMPLES, (301, channels)), 44_100, container, kind)
    header = read_wav_header(data)
    assert (header.rate_hz, header.channels, header.frames) == (44_100, channels, 301)
    expected = soundfile.read(io.BytesIO(data), dtype="float64", always_2d=True)[0].mean(axis=1)
    np.testing.assert_array_equal(read_wav_samples(data, header, 0, 301), expected)
    np.testing.assert_array_equal(read_wav_samples(data, header, 7, 9), expected[7:9])


def test_other_chunks_are_passed_over():
    odd = b"LIST" + struct.pack("<I", 3) + b"odd\0"
    assert read_wav_header(build_wav(bytes(10), before=odd)).frames == 5
    assert read_wav_header(build_wav(bytes(10)) + odd).frames == 5


def test_a_size_that_was_never_filled_in_means_to_the_end():
    assert read_wav_header(build_wav(bytes(11), size=0xFFFF_FFFF)).frames == 5


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (build_wav(bytes(10), size=12), "truncated: 10 bytes of samples, but its header says 12"),
        (build_wav()[:30], "truncated: the WAV data ends at byte 30 without samples"),
        (build_wav()[:12], "truncated: the WAV data ends at byte 12 without samples"),
        (build_wav(b""), "empty: the sound has no samples"),
        (build_wav(b"1"), "empty: the sound has no samples"),
        (build_wav(tag=0x11, block_bytes=256), "unsupported: samples of format 17 in 256 bytes"),
        (build_wav(tag=7, block_bytes=1), "unsupported: samples of format 7 in 1 bytes"),
        (build_wav(tag=3, block_bytes=2), "unsupported: samples of format 3 in 2 bytes"),
        (build_wav(channels=0), "corrupt: 0 channels in 2 bytes"),
        (build_wav(channels=3), "corrupt: 3 channels in 2 bytes"),
        (build_wav(block_bytes=0), "unsupported: samples of format 1 in 0 bytes"),
        (build_wav(before=b"none\0\0\0\0" * 2_000), "corrupt: more than 2000 chunks"),
        (b"RIFF\0\0\0\0WAVE" + b"data\4\0\0\0abcd", "truncated: the WAV data ends at byte 24"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(data, expected):
    with pytest.raises(BadImage) as caught:
        read_wav_header(data)
    assert str(caught.value).startswith(expected)


def test_a_file_cut_anywhere_is_never_read():
    data = build_wav(bytes(20))
    for length in range(12, len(data)):
        with pytest.raises(BadImage, match="truncated"):
            read_wav_header(data[:length])
