"""A sound as a picture: how loud each band of pitches is, over time (a log-mel spectrogram).

The arithmetic is float64 throughout, and its tables are the ones that a served model has as
constants: so both give the same pixels.
"""

import functools
from typing import Literal

import numpy as np
import pydantic

from image_pipeline.components.options import Options

# A longer transform only interpolates between frequencies; beyond this, bands are too narrow.
_MOST_FFT = 2**16
_FRAMES_AT_ONCE = 1024


class SoundOptions(Options):
    """How a sound becomes a gray picture: a row for each band of pitches, a column for each moment.

    The highest band is the topmost row. A pixel is the band's power in decibels, from `floor_db`
    (0, black) to that of a sine wave of full scale (255, white).
    """

    sample_rate_hz: int = pydantic.Field(default=16_000, ge=1_000, le=400_000)
    """Samples a second that sounds of any other rate are resampled to. Pitches up to half of it are
    kept."""
    duration_s: float = pydantic.Field(default=1.0, gt=0, le=300)
    """Seconds of each sound that the picture shows: longer ones are cut, and shorter ones followed
    by silence, so that all pictures have the same width."""
    align: Literal["start", "center"] = "start"
    """Which part of a longer sound is kept, and where a shorter one lies in the silence."""
    window_s: float = pydantic.Field(default=0.025, gt=0)
    """Seconds of sound that a column is computed from, weighed by a Hann window."""
    hop_s: float = pydantic.Field(default=0.010, gt=0)
    """Seconds from one column to the next."""
    mel_bins: int = pydantic.Field(default=64, ge=2, le=1024)
    """Number of bands, which is the picture's height. They are equally wide on HTK's mel scale,
    2595 log10(1 + f / 700 Hz), and overlap by half."""
    low_hz: float = pydantic.Field(default=20.0, ge=0)
    """Where the lowest band begins, in Hz."""
    high_hz: float | None = pydantic.Field(default=None, gt=0)
    """Where the highest band ends, in Hz. None: at half of the sample rate."""
    floor_db: float = pydantic.Field(default=-100.0, lt=0, ge=-300)
    """Power in decibels that is drawn black, as is all that is less. 0 dB is a sine wave of full
    scale."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> "SoundOptions":
        if not self.low_hz < self.top_hz <= self.sample_rate_hz / 2:
            raise ValueError(
                f"low_hz must be below high_hz, and that at most half of sample_rate_hz, got "
                f"{self.low_hz:g}, {self.top_hz:g} and {self.sample_rate_hz}; correct one."
            )
        if min(self.hop_samples, self.window_samples - 1) < 1 or self.columns < 1:
            raise ValueError(
                f"duration_s must hold a window_s of 2 samples or more, and hop_s one, got "
                f"{self.duration_s:g}, {self.window_s:g} and {self.hop_s:g} at "
                f"{self.sample_rate_hz} samples a second; raise the one that is too short."
            )
        if self.window_samples > _MOST_FFT or not make_filters(self).any(axis=0).all():
            raise ValueError(
                f"mel_bins={self.mel_bins} is too many bands from {self.low_hz:g} to "
                f"{self.top_hz:g} Hz, or window_s={self.window_s:g} too long; lower it."
            )
        return self

    @property
    def top_hz(self) -> float:
        """Where the highest band ends."""
        return self.sample_rate_hz / 2 if self.high_hz is None else self.high_hz

    @property
    def samples(self) -> int:
        """How many samples a picture shows."""
        return round(self.duration_s * self.sample_rate_hz)

    @property
    def window_samples(self) -> int:
        """How many samples a column is computed from."""
        return round(self.window_s * self.sample_rate_hz)

    @property
    def hop_samples(self) -> int:
        """How many samples there are from one column to the next."""
        return round(self.hop_s * self.sample_rate_hz)

    @property
    def columns(self) -> int:
        """The picture's width: as many whole windows as the duration has."""
        return 1 + (self.samples - self.window_samples) // self.hop_samples


def draw_spectrogram(samples: np.ndarray, options: SoundOptions) -> np.ndarray:
    """Draws a sound.

    Args:
      samples: float64 [options.samples], full scale is ±1.

    Returns:
      uint8 [mel_bins, columns].
    """
    windows = np.lib.stride_tricks.sliding_window_view(samples, options.window_samples)
    windows = windows[:: options.hop_samples]
    parts = [
        _draw_columns(windows[start : start + _FRAMES_AT_ONCE], options)
        for start in range(0, len(windows), _FRAMES_AT_ONCE)
    ]
    return np.ascontiguousarray(np.concatenate(parts).T[::-1])


def _draw_columns(windows: np.ndarray, options: SoundOptions) -> np.ndarray:
    """Pixels of some columns: uint8 [windows, mel_bins], the lowest band first."""
    filters = make_filters(options)
    spectrum = np.fft.rfft(windows * make_window(options), 2 * (len(filters) - 1))
    power = (spectrum.real**2 + spectrum.imag**2) @ filters
    decibels = 10 * np.log10(np.maximum(power, 10 ** (options.floor_db / 10)))
    levels = (1 - decibels / options.floor_db) * 255
    return np.floor(np.clip(levels, 0, 255) + 0.5).astype(np.uint8)


@functools.lru_cache(maxsize=16)
def make_window(options: SoundOptions) -> np.ndarray:
    """A periodic Hann window: float64 [window_samples]."""
    count = options.window_samples
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(count) / count)


@functools.lru_cache(maxsize=16)
def make_filters(options: SoundOptions) -> np.ndarray:
    """What each frequency's squared magnitude adds to each band's power.

    Triangles on the mel scale whose peak is 1, as HTK's (The HTK Book 3.4, 5.4 and 5.6) and
    `tf.signal.linear_to_mel_weight_matrix`: so a tone's power is shared by two bands. They are
    scaled so that the squares which a sine wave of full scale gives add up to 1, by Parseval's
    theorem: its squares have a mean of 1/2, and half of them belong to negative frequencies.

    Returns:
      float64 [frequencies, mel_bins], of the fewest frequencies, a power of two and one, that hold
      the window and leave no band empty.
    """
    fft = 1 << (options.window_samples - 1).bit_length()
    while not (shares := _share_bands(options, fft)).any(axis=0).all() and fft < _MOST_FFT:
        fft *= 2
    return shares * (4 / (fft * np.sum(make_window(options) ** 2)))


def _share_bands(options: SoundOptions, fft: int) -> np.ndarray:
    """Each frequency's share in each band: float64 [fft // 2 + 1, mel_bins], from 0 to 1."""
    low, high = _to_mel(np.array([options.low_hz, options.top_hz]))
    edges = np.linspace(low, high, options.mel_bins + 2)
    own = _to_mel(np.arange(fft // 2 + 1) * (options.sample_rate_hz / fft))[:, None]
    rising = (own - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - own) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(rising, falling))


def _to_mel(hertz: np.ndarray) -> np.ndarray:
    """HTK's mel scale (O'Shaughnessy, Speech Communication, 1987)."""
    return 2595 * np.log10(1 + hertz / 700)
