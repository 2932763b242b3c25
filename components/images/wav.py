"""A WAV file's header and samples: PCM of 8 to 32 bits, and floats.

Read here and not by a library, because a served model has to find the same samples in the same
damaged files, in TensorFlow's operations: `served.sound` follows this file step by step.
"""

import struct
from typing import NamedTuple

import numpy as np

from image_pipeline.components.images.bad_image import (
    CORRUPT,
    EMPTY,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
)

FIRST_CHUNK = 12
MOST_CHUNKS = 2_000
# A program that writes to a pipe cannot fill in the size later; the data then go on to the end.
OPEN_SIZE = 0x7FFF_0000
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
FORMAT_BYTES = 16
# Of an extensible format: where the tag of the samples' own format is.
SUBFORMAT = 24
SAMPLE_BYTES = {PCM: (1, 2, 3, 4), FLOAT: (4, 8)}


class WavHeader(NamedTuple):
    """What a WAV file's header says."""

    rate_hz: int
    channels: int
    tag: int
    """`PCM` or `FLOAT`."""
    sample_bytes: int
    """Of one channel's sample."""
    start: int
    """Offset of the first sample."""
    frames: int
    """How many samples each channel has."""


def read_wav_header(data: bytes) -> WavHeader:
    """Reads the header of a whole WAV file.

    Raises:
      BadImage: it is damaged, cut off, without samples, or of compressed ones.
    """
    start, size, format_ = _find_chunks(data)
    tag, channels, rate_hz, _, block_bytes, _ = struct.unpack_from("<HHIIHH", format_)
    if tag == EXTENSIBLE:
        tag = int.from_bytes(format_[SUBFORMAT : SUBFORMAT + 2], "little")
    if not channels or block_bytes % channels:
        raise BadImage(CORRUPT, f"{channels} channels in {block_bytes} bytes; its header is wrong")
    sample_bytes = block_bytes // channels
    if sample_bytes not in SAMPLE_BYTES.get(tag, ()):
        message = f"samples of format {tag} in {sample_bytes} bytes; convert them, for example: "
        raise BadImage(UNSUPPORTED, f"{message}ffmpeg -i FILE -c:a pcm_s16le FILE.wav")
    if size >= OPEN_SIZE:
        size = len(data) - start
    if start + size > len(data):
        message = f"{len(data) - start} bytes of samples, but its header says {size}"
        raise BadImage(TRUNCATED, message)
    if size < block_bytes:
        raise BadImage(EMPTY, "the sound has no samples")
    return WavHeader(rate_hz, channels, tag, sample_bytes, start, size // block_bytes)


def _find_chunks(data: bytes) -> tuple[int, int, bytes]:
    """Where the samples' chunk starts, its size, and the content of the format's chunk."""
    position, format_ = FIRST_CHUNK, b""
    for _ in range(MOST_CHUNKS):
        if position + 8 > len(data):
            raise BadImage(TRUNCATED, f"the WAV data ends at byte {len(data)} without samples")
        name, size = struct.unpack_from("<4sI", data, position)
        content = data[position + 8 : position + 8 + size] if name == b"fmt " else b""
        if name == b"data" and len(format_) >= FORMAT_BYTES:
            return position + 8, size, format_
        format_ = format_ or content
        position += 8 + size + size % 2
    raise BadImage(CORRUPT, f"more than {MOST_CHUNKS} chunks before the samples")


def read_wav_samples(data: bytes, header: WavHeader, first: int, last: int) -> np.ndarray:
    """Reads samples, the mean of all channels.

    Args:
      data: the whole file.
      first: the first sample, from 0.
      last: the one after the last.

    Returns:
      float64 [last - first]; of PCM, full scale is ±1.
    """
    block = header.channels * header.sample_bytes
    raw = np.frombuffer(data, np.uint8, (last - first) * block, header.start + first * block)
    return _to_floats(raw, header).reshape(-1, header.channels).mean(axis=1)


def _to_floats(raw: np.ndarray, header: WavHeader) -> np.ndarray:
    if header.tag == FLOAT:
        return raw.view(f"<f{header.sample_bytes}").astype(np.float64)
    if header.sample_bytes == 1:  # The only unsigned ones.
        return (raw.astype(np.float64) - 128) / 128
    if header.sample_bytes == 3:
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = raw.reshape(-1, 3)
        return wide.view("<i4")[:, 0] / 2**31
    return raw.view(f"<i{header.sample_bytes}") / 2.0 ** (8 * header.sample_bytes - 1)
