"""A sound file to the picture that is stored: which part, at which rate, and what is refused."""

import io
import struct

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import resample_poly

from image_pipeline.components.images import sound
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from image_pipeline.components.images.sound import (
    SoundOptions,
    decode_sound,
    draw_spectrogram,
    make_filters,
    make_window,
    measure_sound,
    place_part,
)
from tests.sounds import build_wav, encode, make_tone

pytestmark = pytest.mark.unit

OPTIONS = SoundOptions(sample_rate_hz=8_000, duration_s=0.2, mel_bins=20)
CENTERED = OPTIONS.model_copy(update={"align": "center"})
NOISE = np.random.default_rng(0).uniform(-0.5, 0.5, 4_000)


def draw(samples, options=OPTIONS):
    """The picture of samples that are stored without loss."""
    return decode_sound(encode(samples, samples_as="DOUBLE"), options)


def test_a_longer_sound_is_cut_and_a_shorter_one_padded():
    for options, kept in ((OPTIONS, NOISE[:1_600]), (CENTERED, NOISE[1_200:2_800])):
        pixels, source_format, notes = draw(NOISE, options)
        np.testing.assert_array_equal(pixels, draw_spectrogram(kept, options))
        assert (source_format, notes) == ("wav", ("cut",))
    for options, before in ((OPTIONS, 0), (CENTERED, 749)):
        pixels, _, notes = draw(NOISE[:101], options)
        padded = np.pad(NOISE[:101], (before, 1_499 - before))
        np.testing.assert_array_equal(pixels, draw_spectrogram(padded, options))
        assert notes == ("padded",)
    assert draw(NOISE[:1_600])[2] == ()


@pytest.mark.parametrize("rate_hz", [4_000, 11_025, 16_000, 44_100, 7_999])
@pytest.mark.parametrize("options", [OPTIONS, CENTERED])
def test_a_part_is_resampled_as_the_whole_sound_is(rate_hz, options):
    samples = np.resize(NOISE, rate_hz)
    pixels = decode_sound(encode(samples, rate_hz, samples_as="DOUBLE"), options)[0]
    whole = resample_poly(samples, 8_000, rate_hz)
    start = 3_200 if options is CENTERED else 0
    expected = draw_spectrogram(whole[start : start + 1_600], options)
    np.testing.assert_array_equal(pixels, expected)


@given(
    rate_hz=st.integers(1_000, 400_000),
    frames=st.integers(1, 10**7),
    align=st.sampled_from(["start", "center"]),
)
def test_the_part_that_is_read_lies_in_the_sound_and_fills_the_picture(rate_hz, frames, align):
    options = OPTIONS.model_copy(update={"align": align})
    part = place_part(rate_hz, frames, options)
    assert 0 <= part.first < part.last <= frames
    assert part.before + part.kept <= options.samples and part.kept > 0
    resampled = -(-(part.last - part.first) * 8_000 // rate_hz)
    assert part.skipped >= 0 and part.skipped + part.kept <= resampled


def test_channels_are_averaged():
    both = np.stack([NOISE[:1_600], -NOISE[:1_600]], axis=1)
    assert draw(both)[2] == ("silent",)
    eight = np.repeat(NOISE[:1_600, None], 8, axis=1)
    np.testing.assert_array_equal(draw(eight)[0], draw(NOISE[:1_600])[0])


def test_flac_has_the_picture_of_the_same_samples_as_wav():
    for options in (OPTIONS, CENTERED):
        flac = decode_sound(encode(NOISE, kind="FLAC"), options)
        wav = decode_sound(encode(NOISE), options)
        np.testing.assert_array_equal(flac[0], wav[0])
        assert flac[1:] == ("flac", ("cut",))


@pytest.mark.parametrize(
    "kind", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW"]
)
def test_every_kind_of_samples_is_drawn(kind):
    data = encode(NOISE[:1_600], samples_as=kind)
    samples = soundfile.read(io.BytesIO(data), dtype="float64")[0]
    np.testing.assert_array_equal(
        decode_sound(data, OPTIONS)[0], draw_spectrogram(samples, OPTIONS)
    )


def test_other_chunks_and_a_size_that_was_never_filled_in_are_passed_over():
    odd = b"LIST" + struct.pack("<I", 3) + b"odd\0"
    for data in (build_wav(bytes(10), before=odd), build_wav(bytes(10)) + odd):
        assert measure_sound(data) == (8_000, 5 / 8_000)
    assert measure_sound(build_wav(bytes(11), size=0xFFFF_FFFF)) == (8_000, 5 / 8_000)


def test_a_file_cut_anywhere_is_never_read():
    data = build_wav(bytes(20))
    for length in range(12, len(data)):
        with pytest.raises(BadImage, match="truncated"):
            measure_sound(data[:length])


def test_one_sample_is_a_sound():
    pixels, _, notes = draw(np.ones(1))
    assert notes == ("padded",) and not pixels[:, 1:].any()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (build_wav(bytes(10), size=12), "truncated: 10 bytes of samples, but its header says 12"),
        (build_wav()[:30], "truncated: the WAV data ends at byte 30 without samples"),
        (build_wav()[:12], "truncated: the WAV data ends at byte 12 without samples"),
        (
            build_wav(before=b"junk\0\0\0\0" * 10_000),
            "unsupported: a WAV file of more than 10,000 chunks before its samples; write it again",
        ),
        (build_wav(b"1"), "empty: the sound has no samples"),
        (build_wav(tag=0x11, block_bytes=256), "corrupt: the sound is damaged, cut off or of a"),
        (
            build_wav(channels=0),
            "corrupt: the sound is damaged, cut off or of a rare kind: Channel",
        ),
        (build_wav(rate_hz=0), "corrupt: the sound is damaged, cut off or of a rare kind: "),
        (build_wav(rate_hz=999), "unsupported: 999 samples a second; supported are 1000 to 400000"),
        (build_wav(rate_hz=500_000), "unsupported: 500000 samples a second"),
        (build_wav(np.full(9, np.nan, "<f4").tobytes(), tag=3, block_bytes=4), "corrupt: samples"),
        (build_wav(np.full(9, 2e4, "<f8").tobytes(), tag=3, block_bytes=8), "corrupt: samples"),
        (build_wav(b""), "empty: the sound has no samples"),
        (b"fLaC", "corrupt: the sound is damaged, cut off or of a rare kind: "),
        (
            encode(NOISE, kind="FLAC")[:-1_000],
            "corrupt: the sound is damaged, cut off or of a rare kind: ",
        ),
        (b"ID3\3" + bytes(100), "not_an_image: a sound; convert it, for example: ffmpeg -i FILE"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(data, expected):
    with pytest.raises(BadImage) as caught:
        prepare_image(data, PrepareOptions(sound=OPTIONS))
    assert str(caught.value).startswith(expected)


@given(
    kind=st.sampled_from(["WAV", "FLAC", "WAVEX"]),
    edits=st.lists(st.tuples(st.integers(0, 199), st.integers(0, 255)), max_size=4),
    length=st.integers(1, 4_000),
)
def test_whatever_a_file_holds_it_is_drawn_or_refused(kind, edits, length):
    data = bytearray(encode(NOISE[:1_000], kind=kind))
    for place, value in edits:
        data[place] = value
    try:
        pixels = prepare_image(bytes(data[:length]), PrepareOptions(sound=OPTIONS)).encoded
        assert pixels
    except BadImage:
        pass


def test_a_changed_bit_in_flac_is_found():
    data = bytearray(encode(NOISE, kind="FLAC"))
    data[len(data) // 2] ^= 4
    with pytest.raises(BadImage):
        decode_sound(bytes(data), OPTIONS)


def test_sounds_are_read_only_where_the_option_is_set():
    data = encode(make_tone(440))
    with pytest.raises(BadImage, match=r"a sound; ingest\.prepare\.sound makes pictures of WAV"):
        prepare_image(data, PrepareOptions())
    stored = prepare_image(data, PrepareOptions(sound=OPTIONS, encoding="raw", color="gray"))
    assert stored.encoded == decode_sound(data, OPTIONS)[0].tobytes()
    assert (stored.height, stored.width, stored.channels) == (20, OPTIONS.columns, 1)
    assert (stored.source_format, stored.orientation, stored.notes) == ("wav", 1, ())


def test_the_option_is_written_only_where_it_is_set():
    assert "sound" not in PrepareOptions().model_dump(mode="json")
    assert PrepareOptions(sound=OPTIONS).model_dump()["sound"]["mel_bins"] == 20
    again = PrepareOptions.model_validate_json(PrepareOptions(sound=OPTIONS).model_dump_json())
    assert again.sound == OPTIONS


def test_flac_of_very_many_samples_is_not_decoded(monkeypatch):
    flac = encode(NOISE, kind="FLAC")
    monkeypatch.setattr(sound, "_MOST_SAMPLES", len(NOISE))
    measure_sound(flac)
    monkeypatch.setattr(sound, "_MOST_SAMPLES", len(NOISE) - 1)
    with pytest.raises(BadImage, match=rf"{len(NOISE):,} samples of 1 channels, more than"):
        measure_sound(flac)


SMALL = SoundOptions(sample_rate_hz=8_000, duration_s=0.2, mel_bins=40)


@pytest.mark.parametrize(
    "options", [SoundOptions(), SMALL, SoundOptions(low_hz=125, high_hz=7_500, mel_bins=80)]
)
def test_the_bands_are_those_of_tensorflow(options):
    filters = make_filters(options)
    fft = 2 * (len(filters) - 1)
    scale = 4 / (fft * np.sum(make_window(options) ** 2))
    expected = tf.signal.linear_to_mel_weight_matrix(
        options.mel_bins,
        len(filters),
        options.sample_rate_hz,
        options.low_hz,
        options.top_hz,
        tf.float64,
    )
    # TensorFlow's own mel scale has 1127 ln(1 + f / 700), whose factor is rounded.
    np.testing.assert_allclose(filters / scale, expected, atol=3e-4)


def test_the_picture_is_that_of_another_short_time_fourier_transform():
    samples = np.random.default_rng(0).normal(size=SMALL.samples, scale=0.1)
    spectrum = tf.signal.stft(samples, SMALL.window_samples, SMALL.hop_samples).numpy()
    decibels = 10 * np.log10(np.abs(spectrum) ** 2 @ make_filters(SMALL))
    expected = np.floor((decibels / 100 + 1) * 255 + 0.5)
    np.testing.assert_array_equal(draw_spectrogram(samples, SMALL), expected.T[::-1])


def test_a_tone_of_full_scale_has_0_decibels_in_all_bands_together():
    picture = draw_spectrogram(make_tone(1_000, level=1.0), SMALL).astype(float)
    decibels = (picture / 255 - 1) * 100
    np.testing.assert_allclose(10 * np.log10((10 ** (decibels / 10)).sum(axis=0)), 0, atol=0.2)


def test_the_highest_pitch_is_the_topmost_row():
    rows = [
        draw_spectrogram(make_tone(hertz), SMALL).argmax(axis=0) for hertz in (200, 1_000, 3_000)
    ]
    # Bands have centres at equal distances on the mel scale: 31.7 to 2146.1, in 41 steps.
    assert [set(own) for own in rows] == [{35}, {21}, {4}]


def test_half_the_amplitude_is_six_decibels_less():
    loud, soft = (draw_spectrogram(make_tone(900, level=level), SMALL) for level in (0.8, 0.4))
    assert (loud.max(axis=0).astype(int) - soft.max(axis=0) == round(6.02 * 2.55)).all()


@pytest.mark.parametrize("floor_db", [-40.0, -100.0])
def test_silence_is_black_and_a_click_is_not(floor_db):
    options = SMALL.model_copy(update={"floor_db": floor_db})
    samples = np.zeros(options.samples)
    assert not draw_spectrogram(samples, options).any()
    samples[200] = 1.0
    drawn = draw_spectrogram(samples, options)
    columns = [
        column
        for column in range(options.columns)
        if 0 < 200 - column * options.hop_samples < options.window_samples
    ]
    assert np.flatnonzero(drawn.any(axis=0)).tolist() == columns


@given(
    rate=st.sampled_from([8_000, 11_025, 16_000, 44_100]),
    duration=st.floats(0.1, 3),
    window=st.floats(0.01, 0.05),
    hop=st.floats(0.005, 0.05),
)
def test_the_picture_has_the_size_that_the_options_say(rate, duration, window, hop):
    options = SoundOptions(
        sample_rate_hz=rate, duration_s=duration, window_s=window, hop_s=hop, mel_bins=8
    )
    drawn = draw_spectrogram(np.zeros(options.samples), options)
    assert drawn.shape == (8, options.columns)
    last = (options.columns - 1) * options.hop_samples + options.window_samples
    assert last <= options.samples < last + options.hop_samples


def test_long_sounds_are_drawn_in_parts_without_a_seam():
    options = SoundOptions(duration_s=11.0, mel_bins=8)
    samples = np.random.default_rng(0).normal(size=options.samples, scale=0.1)
    drawn = draw_spectrogram(samples, options)
    for column in (0, 1_023, 1_024, options.columns - 1):
        start = column * options.hop_samples
        alone = SoundOptions(duration_s=0.025, mel_bins=8)
        own = draw_spectrogram(samples[start : start + alone.samples], alone)
        np.testing.assert_array_equal(drawn[:, [column]], own)


def test_no_band_is_empty_however_narrow_it_is():
    options = SoundOptions(mel_bins=128)
    assert len(make_filters(options)) == 513  # twice the least power of two
    assert make_filters(options).any(axis=0).all()
