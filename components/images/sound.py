"""A WAV or FLAC file to the picture that is stored of it: a log-mel spectrogram, 8-bit gray.

A row for each band of pitches, a column for each moment. The arithmetic is float64 throughout, and
its tables are those that a served model has as constants: so both give the same pixels.
"""

import functools
import io
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import pydantic

from image_pipeline.components.extras import need
from image_pipeline.components.images.bad_image import (
    CORRUPT,
    EMPTY,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
)
from image_pipeline.components.options import Options

LOWEST_RATE_HZ, HIGHEST_RATE_HZ = 1_000, 400_000
LOUDEST = 1_000.0
"""Times full scale: floats that are larger are not samples between -1 and 1."""
# Of `scipy.signal.resample_poly`'s low-pass filter, which MATLAB's `resample` has, too.
_FILTER_REACH = 10
_KAISER_BETA = 5.0
_BLOCK = 2**16
# Of all channels: six hours of stereo. All are decoded, and silence takes few bytes.
_MOST_SAMPLES = 2**31
# A program that writes to a pipe cannot fill in a WAV file's size; its data go on to the end.
OPEN_SIZE = 0x7FFF_0000
_MOST_CHUNKS = 10_000
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


class Part(NamedTuple):
    """What of a sound its picture shows, in samples."""

    first: int
    """The first that is read."""
    last: int
    """The one after the last that is read; beyond the picture where a filter reaches further."""
    skipped: int
    """Of what these are resampled to, how many come before the picture."""
    kept: int
    """How many the picture shows."""
    before: int
    """How many zeros come before these."""


def decode_sound(data: bytes, options: SoundOptions) -> tuple[np.ndarray, str, tuple[str, ...]]:
    """Draws a WAV or FLAC file's sound.

    Returns:
      The picture, uint8 [mel_bins, columns]; its format; and notes: `cut`, `padded`, `silent`.

    Raises:
      BadImage: the file is damaged, or no sound that is read.
      UserError: if soundfile is not installed.
    """
    file = _open(data)
    up, down = _find_ratio(file.samplerate, options.sample_rate_hz)
    part = place_part(file.samplerate, file.frames, options)
    samples = _read_part(file, part)
    if not np.all(np.abs(samples) <= LOUDEST):
        message = "samples that are NaN, or far beyond -1 and 1, which is full scale of floats"
        raise BadImage(CORRUPT, message)
    length = -(-file.frames * up // down)
    noted = {"cut": length > options.samples, "padded": length < options.samples}
    noted["silent"] = not samples.any()
    if up != down:
        from scipy.signal import resample_poly  # It takes a second to import.

        samples = resample_poly(samples, up, down, window=_make_low_pass(max(up, down)))
    fitted = np.zeros(options.samples)
    taken = samples[part.skipped : part.skipped + part.kept]
    fitted[part.before : part.before + part.kept] = taken
    notes = tuple(name for name, applies in noted.items() if applies)
    return draw_spectrogram(fitted, options), file.format.lower().removesuffix("ex"), notes


def measure_sound(data: bytes) -> tuple[int, float]:
    """Returns a whole WAV or FLAC file's sample rate in Hz, and its duration in seconds.

    Raises:
      BadImage: as `decode_sound`.
    """
    file = _open(data)
    return file.samplerate, file.frames / file.samplerate


def _open(data: bytes) -> Any:
    """Reads the header of a WAV or FLAC file; `soundfile.SoundFile`."""
    need("sound", "Reading WAV and FLAC files")
    import soundfile

    if data.startswith(b"RIFF"):
        _check_whole_wav(data)
    file = _call_library(soundfile.SoundFile, io.BytesIO(data))
    if not 0 < file.frames < 2**40:  # It may not be known where the file was written to a pipe.
        raise BadImage(EMPTY, "the sound has no samples, or does not say how many; write it again")
    if file.frames * file.channels > _MOST_SAMPLES:
        message = f"{file.frames:,} samples of {file.channels} channels, more than"
        raise BadImage(UNSUPPORTED, f"{message} {_MOST_SAMPLES:,} in all; cut the sound in pieces")
    if not LOWEST_RATE_HZ <= file.samplerate <= HIGHEST_RATE_HZ:
        message = f"{file.samplerate} samples a second; supported are {LOWEST_RATE_HZ} to"
        raise BadImage(UNSUPPORTED, f"{message} {HIGHEST_RATE_HZ}")
    return file


def _check_whole_wav(data: bytes) -> None:
    """Refuses a WAV file that ends before its samples do: libsndfile reads what is left of it."""
    at = 12
    for _ in range(_MOST_CHUNKS):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        at += 8
        if at > len(data):
            raise BadImage(TRUNCATED, f"the WAV data ends at byte {len(data)} without samples")
        if name == b"data":
            if at + size > len(data) and size < OPEN_SIZE:
                message = f"{len(data) - at} bytes of samples, but its header says {size}"
                raise BadImage(TRUNCATED, message)
            return
        at += size + size % 2
    message = f"a WAV file of more than {_MOST_CHUNKS:,} chunks before its samples"
    raise BadImage(UNSUPPORTED, f"{message}; write it again")


def _call_library(function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    import soundfile

    try:
        return function(*args, **settings)
    except soundfile.LibsndfileError as error:
        message = f"the sound is damaged, cut off or of a rare kind: {error.error_string}"
        way_out = "convert it, for example: ffmpeg -i FILE -c:a pcm_s16le FILE.wav"
        raise BadImage(CORRUPT, f"{message}; {way_out}") from error


def _read_part(file: Any, part: Part) -> np.ndarray:
    """Reads the whole file, so that damage anywhere is found, and keeps a part.

    Returns:
      float64 [part.last - part.first], the mean of all channels; full scale is ±1.
    """
    kept, position = [], 0
    while position < file.frames:
        block = _call_library(file.read, _BLOCK, dtype="float64", always_2d=True)
        if not len(block):
            message = f"{position} samples, but its header says {file.frames}"
            raise BadImage(TRUNCATED, message)
        kept.append(block[max(0, part.first - position) : max(0, part.last - position)].mean(1))
        position += len(block)
    return np.concatenate(kept)


def place_part(rate_hz: int, frames: int, options: SoundOptions) -> Part:
    """Finds which samples the picture shows."""
    up, down = _find_ratio(rate_hz, options.sample_rate_hz)
    length = -(-frames * up // down)
    kept = min(length, options.samples)
    is_centered = options.align == "center"
    start = (length - kept) // 2 if is_centered else 0
    before = (options.samples - kept) // 2 if is_centered else 0
    reach = _FILTER_REACH * max(up, down) if up != down else 0
    # From a sample on at which both rates have one, so that a part is resampled as the whole is.
    periods = max(0, (start * down - reach) // (up * down))
    last = min(frames, ((start + kept - 1) * down + reach) // up + 1)
    return Part(periods * down, last, start - periods * up, kept, before)


def _find_ratio(rate_hz: int, wanted_hz: int) -> tuple[int, int]:
    """By how much to resample: up, down."""
    common = math.gcd(rate_hz, wanted_hz)
    return wanted_hz // common, rate_hz // common


@functools.lru_cache(maxsize=8)
def _make_low_pass(factor: int) -> np.ndarray:
    """The filter that `resample_poly` makes for each call."""
    from scipy.signal import firwin

    return firwin(2 * _FILTER_REACH * factor + 1, 1 / factor, window=("kaiser", _KAISER_BETA))


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
