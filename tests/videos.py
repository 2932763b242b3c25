"""Videos with known frames: each has its number in its brightness."""

import io
from fractions import Fraction

import av
import numpy as np


def encode(
    count: int,
    fps: int = 10,
    kind: str = "matroska",
    codec: str = "ffv1",
    times: list[float] | None = None,
    size: tuple[int, int] = (16, 32),
    options: dict[str, str] | None = None,
) -> bytes:
    """A video.

    Args:
      count: how many frames; the brightness of number n is `level_of(n)`.
      fps: frames a second.
      kind: of container.
      codec: `ffv1` loses nothing.
      times: of the frames in seconds, where they do not come at a steady rate.
      size: height and width, in pixels.
      options: of the codec.
    """
    file = io.BytesIO()
    with av.open(file, "w", format=kind) as container:
        stream = container.add_stream(codec, rate=fps)
        stream.height, stream.width = size
        stream.pix_fmt = "yuv420p"
        stream.gop_size = 5
        stream.options = options or {}
        stream.bit_rate = 4_000_000
        stream.codec_context.time_base = Fraction(1, 1_000)
        for number in range(count):
            frame = av.VideoFrame.from_ndarray(draw(number, size), format="gray")
            frame = frame.reformat(format="yuv420p")
            frame.pts = round(1_000 * (number / fps if times is None else times[number]))
            frame.time_base = Fraction(1, 1_000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file.getvalue()


def level_of(number: int) -> int:
    """A frame's brightness: no two of 100 are equal."""
    return 20 + 2 * number


def draw(number: int, size: tuple[int, int] = (16, 32)) -> np.ndarray:
    """A frame: uint8 [height, width]; the left half is brighter by 10."""
    pixels = np.full(size, level_of(number), np.uint8)
    pixels[:, : size[1] // 2] += 10
    return pixels


def encode_sound() -> bytes:
    """A file of a video's kind without pictures."""
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as container:
        stream = container.add_stream("pcm_s16le", rate=8_000)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), "s16", "mono")
        frame.sample_rate = 8_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file.getvalue()


def turn(mp4: bytes) -> bytes:
    """An .mp4 file that says it is to be turned by 90 degrees clockwise, as phones write."""
    # ISO 14496-12, 8.3.2: the matrix of a track's header, in 16.16 fixed point.
    upright = b"\0\1\0\0" + bytes(12) + b"\0\1\0\0"
    clockwise = bytes(4) + b"\0\1\0\0" + bytes(4) + b"\xff\xff\0\0" + bytes(4)
    start = mp4.index(upright, mp4.index(b"tkhd"))
    return mp4[:start] + clockwise + mp4[start + len(clockwise) :]
