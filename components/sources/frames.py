"""Videos as a source: each file is the frames that it shows at a steady rate.

A frame is called `clip.mp4/00000012`, by its number at that rate, and is passed on as the bytes of
an `.npy` file. Listing reads the files' headers; reading decodes each video once, from its
beginning to its end, as long as its frames are asked for in about that order.
"""

import collections
import dataclasses
import functools
import io
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.extras import need
from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.images.npy import make_file
from image_pipeline.components.sources.folder import find_below
from image_pipeline.components.sources.options import VideoOptions
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.sources.rows import FREE_ROWS, Location

if TYPE_CHECKING:
    from image_pipeline.components.sources.video import Video

VIDEO_ENDINGS = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm")
FRAME = "frame"  # the kind of a frame's place
TOO_LARGE_VIDEO = "too_large_video"
# Of a member of an archive, which is read as a whole.
_MOST_BYTES = 256 * 2**20
_MOST_OPEN = 4
# Of an array in three dimensions: format 1.0 fills its header up to this.
_NPY_HEADER = 128


@dataclasses.dataclass(frozen=True)
class Frames:
    """A source whose videos are their frames; what else it has stays as it is."""

    source: Source
    options: VideoOptions
    follow_links: bool = False

    @property
    def root(self) -> str:
        """That of the files."""
        return self.source.root

    def list(self) -> Iterator[ImageRef]:
        """Lists the files, and the frames of each video where it stands."""
        for ref in self.source.list():
            is_video = ref.path.lower().endswith(VIDEO_ENDINGS) and ref.problem is None
            yield from self.list_frames(ref) if is_video else (ref,)

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """Reads an image, or a frame; see `Source.read`."""
        if ref.location is None or ref.location.kind != FRAME:
            return self.source.read(ref, most_bytes)
        if most_bytes < ref.size_bytes:
            return np.lib.format.MAGIC_PREFIX  # It is too large, or only its kind is asked for.
        location = ref.location
        of_video = dataclasses.replace(
            ref, path=location.file, size_bytes=location.length, location=location.within
        )
        video = _find_video(self, of_video)
        return make_file(video.read(ref.location.start))[:most_bytes]

    def list_frames(self, ref: ImageRef) -> Iterator[ImageRef]:
        """The frames of a video; itself with its problem, if it cannot be read."""
        need("video", f"Reading {ref.path!r}")
        from image_pipeline.components.sources.video import read_video_header

        try:
            header = read_video_header(self.open_file(ref))
        except BadImage as error:
            yield dataclasses.replace(ref, problem=error.reason, message=error.message)
            return
        except OSError as error:
            message = f"the video cannot be read ({error.strerror or error})"
            yield dataclasses.replace(ref, problem=CORRUPT, message=message)
            return
        count = header.count_frames(self.options.frames_per_second)
        if count > max(FREE_ROWS, ref.size_bytes):
            message = f"its header says that it has {count:,} frames, more than it has bytes"
            yield dataclasses.replace(ref, problem=CORRUPT, message=message)
            return
        frame_bytes = _NPY_HEADER + 3 * header.height * header.width
        for number in range(count):
            location = Location(ref.path, FRAME, number, ref.size_bytes, within=ref.location)
            name = f"{ref.path}/{number:08d}"
            yield dataclasses.replace(ref, path=name, size_bytes=frame_bytes, location=location)

    def open_file(self, ref: ImageRef) -> str | BinaryIO:
        """A video's file: a local path, or what is read from a store or an archive."""
        if ref.location is not None:
            if ref.size_bytes > _MOST_BYTES:
                message = f"{ref.size_bytes} bytes in an archive; more than {_MOST_BYTES} must"
                raise BadImage(TOO_LARGE_VIDEO, f"{message} be a file of its own; unpack it")
            return io.BytesIO(self.source.read(ref, ref.size_bytes))
        path = find_below(self.root, ref.path, self.follow_links)
        return os.fspath(path) if files.is_local(path) else files.open_input(path)


# Few, since each may hold hundreds of megabytes of decoded frames.
_open: collections.OrderedDict[object, "Video"] = collections.OrderedDict()
_lock = threading.Lock()


def _find_video(source: Frames, ref: ImageRef) -> "Video":
    """The opened video; a process's threads share it."""
    need("video", f"Reading {ref.path!r}")
    from image_pipeline.components.sources.video import Video

    rate = source.options.frames_per_second
    key = (source.root, ref.path, ref.size_bytes, ref.modified_ns, rate)
    with _lock:
        if key not in _open:
            _open[key] = Video(functools.partial(source.open_file, ref), rate)
        _open.move_to_end(key)
        while len(_open) > _MOST_OPEN:
            _open.popitem(last=False)
        return _open[key]
