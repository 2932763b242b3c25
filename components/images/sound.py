"""A sound file to the picture that is stored of it, or a `BadImage` that says why not."""

import dataclasses
import functools
import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from image_pipeline.components.extras import need
from image_pipeline.components.images.bad_image import (
    CORRUPT,
    EMPTY,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
)
from image_pipeline.components.images.spectrogram import SoundOptions, draw_spectrogram
from image_pipeline.components.images.wav import read_wav_header, read_wav_samples

LOWEST_RATE_HZ, HIGHEST_RATE_HZ = 1_000, 400_000
LOUDEST = 1_000.0
"""Times full scale: floats that are larger are no samples between -1 and 1."""
# Of `scipy.signal.resample_poly`'s low-pass filter, which MATLAB's `resample` has, too.
FILTER_REACH = 10
KAISER_BETA = 5.0
_BLOCK = 2**16
# Of all channels: six hours of stereo. All are decoded, and silence takes few bytes.
_MOST_SAMPLES = 2**31


@dataclasses.dataclass(frozen=True)
class _Recording:
    """An opened sound: its length, and how to read a part of it, float64 [samples]."""

    source_format: str
    rate_hz: int
    frames: int
    read: Callable[[int, int], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Part:
    """What of a sound its picture shows.

    Attributes:
      first: the first sample that is read.
      last: the one after the last that is read; beyond the picture where a filter reaches further.
      skipped: of what these are resampled to, how many come before the picture.
      kept: how many the picture shows.
      before: how many zeros come before these.
    """

    first: int
    last: int
    skipped: int
    kept: int
    before: int


def decode_sound(data: bytes, options: SoundOptions) -> tuple[np.ndarray, str, tuple[str, ...]]:
    """Draws a WAV or FLAC file's sound.

    Args:
      data: the whole file.
      options: which part is drawn, and how.

    Returns:
      The picture, uint8 [mel_bins, columns]; its format; and notes: `cut`, `padded`, `silent`.

    Raises:
      BadImage: the file is damaged, or no sound that is read.
      UserError: if it is FLAC, and soundfile is not installed.
    """
    recording = _open(data)
    part = place_part(recording.rate_hz, recording.frames, options)
    samples = recording.read(part.first, part.last)
    if not np.all(np.abs(samples) <= LOUDEST):
        message = "samples that are NaN, or far beyond -1 and 1, which is full scale of floats"
        raise BadImage(CORRUPT, message)
    picture = draw_spectrogram(_fit(samples, recording.rate_hz, part, options), options)
    return picture, recording.source_format, _note(samples, recording, options)


def measure_sound(data: bytes) -> tuple[int, float]:
    """Returns a whole WAV or FLAC file's sample rate in Hz, and its duration in seconds.

    Raises:
      BadImage: as `decode_sound`.
    """
    recording = _open(data)
    return recording.rate_hz, recording.frames / recording.rate_hz


def place_part(rate_hz: int, frames: int, options: SoundOptions) -> Part:
    """Finds which samples the picture shows.

    Args:
      rate_hz: the sound's.
      frames: its length in samples.
      options: of the picture.
    """
    up, down = find_ratio(rate_hz, options.sample_rate_hz)
    length = -(-frames * up // down)
    kept = min(length, options.samples)
    is_centered = options.align == "center"
    start = (length - kept) // 2 if is_centered else 0
    before = (options.samples - kept) // 2 if is_centered else 0
    reach = FILTER_REACH * max(up, down) if up != down else 0
    # From a sample on at which both rates have one, so that a part is resampled as the whole is.
    periods = max(0, (start * down - reach) // (up * down))
    last = min(frames, ((start + kept - 1) * down + reach) // up + 1)
    return Part(periods * down, last, start - periods * up, kept, before)


def find_ratio(rate_hz: int, wanted_hz: int) -> tuple[int, int]:
    """By how much to resample: up, down."""
    common = math.gcd(rate_hz, wanted_hz)
    return wanted_hz // common, rate_hz // common


def _fit(samples: np.ndarray, rate_hz: int, part: Part, options: SoundOptions) -> np.ndarray:
    """Resamples, cuts and pads: float64 [options.samples]."""
    from scipy.signal import resample_poly  # It takes a second to import.

    up, down = find_ratio(rate_hz, options.sample_rate_hz)
    if up != down:
        samples = resample_poly(samples, up, down, window=_make_filter(max(up, down)))
    fitted = np.zeros(options.samples)
    taken = samples[part.skipped : part.skipped + part.kept]
    fitted[part.before : part.before + part.kept] = taken
    return fitted


@functools.lru_cache(maxsize=8)
def _make_filter(factor: int) -> np.ndarray:
    """The filter that `resample_poly` makes for each call."""
    from scipy.signal import firwin

    return firwin(2 * FILTER_REACH * factor + 1, 1 / factor, window=("kaiser", KAISER_BETA))


def _note(samples: np.ndarray, recording: _Recording, options: SoundOptions) -> tuple[str, ...]:
    up, down = find_ratio(recording.rate_hz, options.sample_rate_hz)
    length = -(-recording.frames * up // down)
    noted = {"cut": length > options.samples, "padded": length < options.samples}
    noted["silent"] = not samples.any()
    return tuple(name for name, applies in noted.items() if applies)


def _open(data: bytes) -> _Recording:
    recording = _open_wav(data) if data.startswith(b"RIFF") else _open_flac(data)
    if not LOWEST_RATE_HZ <= recording.rate_hz <= HIGHEST_RATE_HZ:
        message = f"{recording.rate_hz} samples a second; read are {LOWEST_RATE_HZ} to"
        raise BadImage(UNSUPPORTED, f"{message} {HIGHEST_RATE_HZ}")
    return recording


def _open_wav(data: bytes) -> _Recording:
    header = read_wav_header(data)
    read = functools.partial(read_wav_samples, data, header)
    return _Recording("wav", header.rate_hz, header.frames, read)


def _open_flac(data: bytes) -> _Recording:
    need("sound", "Reading FLAC files")
    import soundfile

    file = _call_library(soundfile.SoundFile, io.BytesIO(data))
    if not 0 < file.frames < 2**40:  # It may not be known where the file was written to a pipe.
        raise BadImage(EMPTY, "the sound has no samples, or does not say how many; write it anew")
    if file.frames * file.channels > _MOST_SAMPLES:
        message = f"{file.frames:,} samples of {file.channels} channels, more than"
        raise BadImage(UNSUPPORTED, f"{message} {_MOST_SAMPLES:,} in all; cut the sound in pieces")
    read = functools.partial(_read_flac, file)
    return _Recording("flac", file.samplerate, file.frames, read)


def _call_library(function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    import soundfile

    try:
        return function(*args, **settings)
    except soundfile.LibsndfileError as error:
        message = f"the FLAC data is damaged or cut off: {error.error_string}"
        raise BadImage(CORRUPT, message) from error


def _read_flac(file: "soundfile.SoundFile", first: int, last: int) -> np.ndarray:  # type: ignore[name-defined]  # noqa: F821
    """Reads the whole file, so that damage anywhere is found, and keeps a part."""
    kept, position = [], 0
    while position < file.frames:
        block = _call_library(file.read, _BLOCK, dtype="float64", always_2d=True)
        if not len(block):
            message = f"{position} samples, but its header says {file.frames}"
            raise BadImage(TRUNCATED, message)
        kept.append(block[max(0, first - position) : max(0, last - position)].mean(axis=1))
        position += len(block)
    return np.concatenate(kept)
