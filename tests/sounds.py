"""Sounds with known pitches, as files."""

import io
import struct

import numpy as np
import soundfile


def make_tone(
    hertz: float, seconds: float = 0.2, rate_hz: int = 8_000, level: float = 0.5
) -> np.ndarray:
    """A sine wave: float64 [samples]."""
    return level * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate_hz)) / rate_hz)


def encode(
    samples: np.ndarray, rate_hz: int = 8_000, kind: str = "WAV", samples_as: str = "PCM_16"
) -> bytes:
    """A file of samples, float64 [samples] or [samples, channels]."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format=kind, subtype=samples_as)
    return file.getvalue()


def build_wav(
    data: bytes = bytes(400),
    *,
    tag: int = 1,
    channels: int = 1,
    rate_hz: int = 8_000,
    block_bytes: int = 2,
    size: int | None = None,
    before: bytes = b"",
) -> bytes:
    """A WAV file byte by byte, right or wrong.

    Args:
      data: the samples.
      size: of them, as the header says.
      before: chunks before the samples.
    """
    numbers = (tag, channels, rate_hz, rate_hz * block_bytes % 2**32, block_bytes)
    numbers += (8 * block_bytes // max(1, channels) % 2**16,)
    format_ = b"fmt " + struct.pack("<IHHIIHH", 16, *numbers)
    size = len(data) if size is None else size
    return b"RIFF\0\0\0\0WAVE" + format_ + before + b"data" + struct.pack("<I", size) + data
