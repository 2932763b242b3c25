"""An opened video, of which frames are wanted at a steady rate, mostly one after another.

Times are those that the file states, so that a variable frame rate makes no difference; and frames
are turned as it says. Whoever asks first decodes for all: what others will want is kept meanwhile.
"""

import collections
import math
import re
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, BinaryIO, NamedTuple

import av
import numpy as np

from image_pipeline.components.images.bad_image import CORRUPT, TRUNCATED, UNSUPPORTED, BadImage

# A frame this far ahead is worth decoding up to; one further ahead, or behind, is looked up.
_NEAR = 64
_MOST_HELD_BYTES = 384 * 2**20
# Of a video whose frames do not say how long each is shown.
_USUAL_DURATION_S = Fraction(1, 10)
# Containers round times, to milliseconds at worst.
_ROUNDING_S = Fraction(1, 1_000)
# A video that its header says is longer is damaged.
_MOST_S = 7 * 24 * 3600
# What holds its own pictures: no list of other files or addresses, which would be opened.
_FORMATS = "mov,matroska,avi,asf,flv,ogg,mpeg,mpegts,m4v,ivf"
# Titles and the like may be in any encoding. From PyAV 19 on they are read in any case.
_ANY_TEXT = {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}
_CLOCK = re.compile(r"(\d+):(\d+):(\d+(?:\.\d+)?)")

Opener = Callable[[], str | BinaryIO]
"""Gives a local path, or a file that can be read from anywhere."""


class VideoHeader(NamedTuple):
    """What a video's header says."""

    height: int
    """In pixels; before it is turned."""
    width: int
    duration_s: Fraction
    """Of its pictures; what the header says, or the last packet does."""

    def count_frames(self, frames_per_second: float) -> int:
        """How many frames it shows at a rate: rounding adds none at the end."""
        return max(1, math.ceil((self.duration_s - _ROUNDING_S) * _as_fraction(frames_per_second)))


class _Shown(NamedTuple):
    frame: av.VideoFrame | None
    """None if it is damaged."""
    start_s: Fraction
    end_s: Fraction


def read_video_header(file: str | BinaryIO) -> VideoHeader:
    """Reads a video's header; all of its packets, if it does not say how long it is.

    Raises:
      BadImage: it cannot be opened, or has no pictures.
    """
    with _open(file) as container:
        stream = _find_stream(container)
        duration_s = _read_duration(container, stream)
        if duration_s <= 0:
            raise BadImage(CORRUPT, "the video has no frames")
        if duration_s > _MOST_S:
            message = f"its header says it is {float(duration_s):.3g} s long; a video of more than"
            raise BadImage(CORRUPT, f"{message} {_MOST_S} s is damaged, or must be split")
        codec = stream.codec_context
        if not (codec.height and codec.width):
            raise BadImage(CORRUPT, "the video's header has no size; it is cut off, or damaged")
        return VideoHeader(codec.height, codec.width, duration_s)


def _open(file: str | BinaryIO) -> Any:
    options = {"format_whitelist": _FORMATS}
    return _call(av.open, file, options=options, **_ANY_TEXT)


def _as_fraction(frames_per_second: float) -> Fraction:
    return Fraction(frames_per_second).limit_denominator(10**6)


def _find_stream(container: Any) -> Any:
    if not container.streams.video:
        raise BadImage(CORRUPT, "no video stream; it has other media only")
    stream = container.streams.video[0]
    if stream.codec_context is None:  # FFmpeg knows no decoder of that name.
        raise BadImage(UNSUPPORTED, "no decoder reads its video stream; save it as H.264 in MP4")
    return stream


def _read_duration(container: Any, stream: Any) -> Fraction:
    """By the stream's header, as the muxer of Matroska notes it, by the file's, or by packets."""
    if stream.duration is not None:
        return stream.duration * stream.time_base
    if found := _CLOCK.fullmatch(stream.metadata.get("DURATION", "")):
        hours, minutes, seconds = map(Fraction, found.groups())
        end_s = hours * 3600 + minutes * 60 + seconds
        # FFmpeg writes when the pictures end; mkvmerge, which says so, how long they are.
        is_length = "_STATISTICS_WRITING_APP" in stream.metadata
        return end_s if is_length else end_s - (stream.start_time or 0) * stream.time_base
    if container.duration:
        return Fraction(container.duration, av.time_base)
    ends = [
        (packet.pts + (packet.duration or 0)) * packet.time_base
        for packet in _call(list, container.demux(stream))
        if packet.pts is not None
    ]
    return max(ends, default=Fraction(0)) - (stream.start_time or 0) * stream.time_base


class Video:
    """An opened video; threads share it."""

    def __init__(self, open_file: Opener, frames_per_second: float):
        """Opens nothing yet.

        Args:
          open_file: gives the file; called again for a look back where that cannot be seeked.
          frames_per_second: frame number n is the one shown n / frames_per_second seconds on.
        """
        self._open_file = open_file
        self._step_s = 1 / _as_fraction(frames_per_second)
        self._lock = threading.Lock()
        self._held: collections.OrderedDict[int, av.VideoFrame | BadImage] = (
            collections.OrderedDict()
        )
        self._next = 0
        self._is_sought = False
        self._frames: Iterator[_Shown] | None = None
        self._now: _Shown | None = None
        self._after: _Shown | None = None

    def read(self, number: int) -> np.ndarray:
        """Decodes a frame.

        Returns:
          uint8 [height, width, 3], RGB, upright.

        Raises:
          BadImage: it is damaged, or the video ends before it.
        """
        with self._lock:
            found = self._take(number)
        if isinstance(found, BadImage):
            raise found
        return _turn(_call(found.to_ndarray, format="rgb24"), found)

    def _take(self, number: int) -> av.VideoFrame | BadImage:
        if number not in self._held:
            if self._frames is None or not self._next <= number <= self._next + _NEAR:
                self._find(number)
            while self._next <= number:
                self._hold(self._next, self._show_surely(self._next * self._step_s))
                self._next += 1
        return self._held.pop(number)

    def _hold(self, number: int, frame: av.VideoFrame | BadImage) -> None:
        """Keeps a frame, and forgets the first ones if they have become too many."""
        self._held[number] = frame
        first = next(iter(self._held.values()))
        frame_bytes = 1 if isinstance(first, BadImage) else 3 * first.width * first.height // 2
        while len(self._held) > 1 and len(self._held) * frame_bytes > _MOST_HELD_BYTES:
            self._held.popitem(last=False)

    def _find(self, number: int) -> None:
        """Goes to the last whole picture before a frame, or to the beginning."""
        time_s = number * self._step_s
        self._start(time_s)
        if self._after is None or self._after.start_s > time_s + _ROUNDING_S:
            self._start(Fraction(0))  # There is no such place, or the file does not know of it.
        self._next = number

    def _start(self, time_s: Fraction) -> None:
        self._now, self._is_sought = None, bool(time_s)
        try:
            container = _open(self._open_file())
            stream = _find_stream(container)
            stream.thread_type = (
                "SLICE"  # Threads of whole frames report damage now here, now there.
            )
            stream.codec_context.options = {"err_detect": "+explode+crccheck+bitstream+buffer"}
            if time_s:
                place = (stream.start_time or 0) + int(time_s / stream.time_base)
                _call(container.seek, place, stream=stream)
            packets = _iterate(container.demux(stream))
            self._frames = _decode(_leave_leading(packets) if time_s else packets, stream)
            self._after = next(self._frames, None)
        except BadImage:
            self._frames, self._after = iter(()), None

    def _show_surely(self, time_s: Fraction) -> av.VideoFrame | BadImage:
        """As `_show`; what seems damaged may only need what was passed over by a look-up."""
        found = self._show(time_s)
        if isinstance(found, BadImage) and self._is_sought:
            self._start(Fraction(0))
            found = self._show(time_s)
        return found

    def _show(self, time_s: Fraction) -> av.VideoFrame | BadImage:
        """The frame that is shown at a time; calls must be in the order of times."""
        while self._after is not None and (
            self._now is None or self._after.start_s <= time_s + _ROUNDING_S
        ):
            self._now, self._after = self._after, next(self._frames or iter(()), None)
        if self._now is None:
            return BadImage(CORRUPT, "the video has no frame that can be decoded")
        if self._after is None and time_s >= self._now.end_s:
            at = f"{float(time_s):.3f} s"
            message = f"the video ends at {float(self._now.end_s):.3f} s, before {at}"
            return BadImage(TRUNCATED, message)
        if self._now.frame is None:
            return BadImage(CORRUPT, f"the video is damaged at {float(self._now.start_s):.3f} s")
        return self._now.frame


def _turn(pixels: np.ndarray, frame: av.VideoFrame) -> np.ndarray:
    """Turns and mirrors a frame, as its display matrix says."""
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return pixels
    # What a step to the right, and one down, becomes: of (x, y), 16.16 fixed-point numbers.
    right_x, right_y, _, down_x, down_y = np.frombuffer(matrix, np.int32, 5)  # type: ignore[call-overload]
    if abs(right_x) < abs(right_y):
        pixels = pixels.swapaxes(0, 1)
        right_x, down_y = down_x, right_y
    return np.ascontiguousarray(pixels[:: -1 if down_y < 0 else 1, :: -1 if right_x < 0 else 1])


def _decode(packets: Iterator[Any], stream: Any) -> Iterator[_Shown]:
    """The frames from here on with their times.

    After damage nothing is shown up to the next whole picture: what lies between builds on what is
    damaged, and a decoder would draw something.
    """
    origin, last_s = stream.start_time or 0, Fraction(0)
    lost_dts, lost_pts = math.inf, math.inf  # of the packet that could not be decoded
    for packet in packets:
        try:
            frames = packet.decode()
        except av.error.FFmpegError:
            lost_dts, lost_pts = packet.dts or 0, packet.pts or 0
            yield _Shown(None, last_s, last_s)
            continue
        for frame in frames:
            if frame.pts is not None:
                # Others may have been decoded before the damage, and come only now.
                if frame.key_frame and frame.pts > lost_pts:
                    lost_dts, lost_pts = math.inf, math.inf
                is_whole = frame.pts < lost_dts and not frame.is_corrupt
                start_s = (frame.pts - origin) * frame.time_base
                last_s = start_s + ((frame.duration or 0) * frame.time_base or _USUAL_DURATION_S)
                yield _Shown(frame if is_whole else None, start_s, last_s)


def _leave_leading(packets: Iterator[Any]) -> Iterator[Any]:
    """Leaves out what is shown before the first picture: it may need one that was passed over."""
    first = None
    for packet in packets:
        first = packet.pts if first is None else first
        if packet.pts is None or packet.pts >= first:
            yield packet


def _iterate(packets: Iterator[Any]) -> Iterator[Any]:
    """Packets up to the end of what is there."""
    while True:
        try:
            packet = next(packets, None)
        except av.error.FFmpegError:
            return
        if packet is None:
            return
        yield packet


def _call(function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    try:
        return function(*args, **settings)
    except (av.error.FFmpegError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadImage(CORRUPT, f"the video cannot be read ({reason})") from error
