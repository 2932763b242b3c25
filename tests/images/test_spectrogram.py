"""Each pixel of a sound's picture, by another implementation's arithmetic and by hand."""

import numpy as np
import pydantic
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.images.sound import (
    SoundOptions,
    draw_spectrogram,
    make_filters,
    make_window,
)
from tests.sounds import make_tone

pytestmark = pytest.mark.unit

SMALL = SoundOptions(sample_rate_hz=8_000, duration_s=0.2, mel_bins=40)


@pytest.mark.parametrize(
    "options",
    [SoundOptions(), SMALL, SoundOptions(low_hz=125, high_hz=7_500, mel_bins=80)],
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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"low_hz": 9_000}, "low_hz must be below high_hz, and that at most half"),
        ({"high_hz": 8_001}, "low_hz must be below high_hz, and that at most half"),
        ({"duration_s": 0.02}, "duration_s must hold a window_s"),
        ({"hop_s": 0.00001}, "duration_s must hold a window_s"),
        ({"mel_bins": 1024, "high_hz": 40}, "mel_bins=1024 is too many bands from 20 to 40 Hz"),
        ({"sample_rate_hz": 400_000, "window_s": 0.5}, "or window_s=0.5 too long"),
        ({"floor_db": 0}, "less than 0"),
        ({"mels": 3}, "mels"),
    ],
)
def test_options_that_fit_no_picture_are_refused(wrong, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        SoundOptions(**wrong)
