"""Reads the bytes of one source, which must be a regular file: reading never blocks.

Files among the images that never were one are skipped and counted, not called bad: those whose name
is not an image's, and neither is their content. So an image with any name is written, and a file
that is named as an image but is not one is quarantined.
"""

import contextlib
import os

from image_pipeline.components import files, progress
from image_pipeline.components.errors import LACKING
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.kind import HEAD_BYTES, tell_kind
from image_pipeline.components.images.npy import read_array_header
from image_pipeline.components.sources.folder import (
    LISTED_BEFORE,
    NOT_A_FILE,
    OUTSIDE,
    OUTSIDE_MESSAGE,
)
from image_pipeline.components.sources.references import ImageRef, Source

# Names of images, read or not: whatever such a file holds, it was meant as an image.
IMAGE_ENDINGS = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".apng", ".webp", ".tif", ".tiff"),
        *(".bmp", ".dib", ".gif", ".avif", ".heic", ".heif", ".jxl", ".jp2", ".j2k", ".jpx"),
        *(".jpf", ".svg", ".svgz", ".psd", ".psb", ".exr", ".hdr", ".tga", ".ico", ".cur"),
        *(".ppm", ".pgm", ".pbm", ".pnm", ".pam", ".pfm", ".pcx", ".xbm", ".xpm", ".dds", ".eps"),
        *(".npy", ".dcm", ".fits", ".fit", ".nef", ".cr2", ".cr3", ".arw", ".dng", ".raf", ".orf"),
        *(".rw2", ".hif"),
    )
)
# Endings of other files, for content that says nothing: a table in Latin-1, a video, an array.
_OTHER_ENDINGS = frozenset(
    (
        *(".txt", ".md", ".rst", ".csv", ".tsv", ".json", ".jsonl", ".xml", ".yaml", ".yml"),
        *(".html", ".htm", ".css", ".js", ".log", ".ini", ".cfg", ".toml", ".tex", ".bib", ".rtf"),
        *(".py", ".pyc", ".ipynb", ".sh", ".bat", ".m", ".r", ".c", ".cpp", ".h", ".java"),
        *(".pdf", ".doc", ".docx", ".xls", ".xlsx", ".ppt", ".pptx", ".odt", ".ods", ".odp"),
        *(".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst", ".lz4", ".cab"),
        *(".db", ".sqlite", ".sqlite3", ".mdb", ".npz", ".mat", ".pkl", ".pickle"),
        *(".h5", ".hdf5", ".parquet", ".arrow", ".feather", ".tfrecord", ".tfrecords", ".lmdb"),
        *(".pt", ".pth", ".onnx", ".pb", ".ckpt", ".safetensors", ".md5", ".sha1", ".sha256"),
        *(".mp4", ".avi", ".mov", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv", ".flv", ".m4v"),
        *(".exe", ".dll", ".so", ".lnk", ".url", ".bak"),
    )
)
# Names of sounds, read or not: meant as images only where pictures are made of them.
SOUND_ENDINGS = frozenset((".wav", ".flac", ".mp3", ".ogg", ".m4a"))
# What operating systems leave in folders; macOS's names begin with a dot and are not listed.
_SYSTEM_NAMES = frozenset(
    ("thumbs.db", "ehthumbs.db", "ehthumbs_vista.db", "desktop.ini", "icon\r", "folder.htt")
)
_MESSAGES = {
    NOT_A_FILE: "a broken link, a pipe, a device, or what cannot be read to an end",
    OUTSIDE: OUTSIDE_MESSAGE,
    LISTED_BEFORE: "a folder whose images are listed under another name",
}


MISSING_FILE = "missing_file"  # a table names it, but it is not there


class SkippedFile(Exception):
    """A file that is not an image and never was; `kind` says what it is."""

    def __init__(self, kind: str, message: str):
        super().__init__(kind, message)
        self.kind = kind
        self.message = message


def try_read(
    ref: ImageRef, source: Source, max_file_bytes: int, with_sounds: bool = False
) -> bytes | BadImage | SkippedFile:
    """Reads one image's bytes.

    Returns:
      The bytes, or why the source is to be quarantined or skipped.

    Raises:
      UserError: if an object store refuses it or does not answer.
    """
    if ref.problem == LISTED_BEFORE:
        return SkippedFile(LISTED_BEFORE, _MESSAGES[LISTED_BEFORE])
    if ref.problem is not None:
        return BadImage(ref.problem, ref.message or _MESSAGES[ref.problem])
    # Of what is too large, only what it is: no image is called that, whatever its size.
    is_too_large = ref.size_bytes > max_file_bytes
    try:
        with progress.named(f"reading {ref.path}"):
            data = source.read(ref, HEAD_BYTES if is_too_large else max_file_bytes + 1)
    except BadImage as error:
        return error
    except files.NotRegularError:
        return BadImage(NOT_A_FILE, _MESSAGES[NOT_A_FILE])
    except FileNotFoundError:
        if ref.annotations is not None:
            return BadImage(MISSING_FILE, f"{ref.annotations.row}: there is no such file")
        return BadImage("vanished", "listed, but gone when it was read")
    except OSError as error:
        if error.errno in LACKING:
            raise
        return BadImage("unreadable", error.strerror or str(error))
    limit = f"prepare.max_file_bytes={max_file_bytes}"
    if not is_too_large and len(data) > max_file_bytes:  # It has grown.
        return BadImage("too_large_file", f"more than {limit} bytes")
    # What a table calls an image is never skipped.
    other = None
    if ref.annotations is None:
        other = find_other_kind(ref.path, data[:HEAD_BYTES], with_sounds)
    if other is not None:
        return SkippedFile(*other)
    return BadImage("too_large_file", f"{ref.size_bytes} bytes; {limit}") if is_too_large else data


def names_other_kind(path: str, with_sounds: bool = False) -> bool:
    """Tells whether the path alone says that the file is not an image, nor a sound that is read."""
    name = os.path.basename(path).lower()
    others = _OTHER_ENDINGS if with_sounds else _OTHER_ENDINGS | SOUND_ENDINGS
    return name in _SYSTEM_NAMES or os.path.splitext(name)[1] in others


def find_other_kind(path: str, head: bytes, with_sounds: bool = False) -> tuple[str, str] | None:
    """Says what a file is that is an image neither by name nor by content.

    Args:
      path: with slashes.
      head: the file's first kilobytes; all of it, if it has no more.
      with_sounds: whether sounds are images, too.

    Returns:
      The kind (`system_file`, `archive`, `text` or `other_file`) and a message; None for what is
      an image, was meant as one, or is unknown.
    """
    name = os.path.basename(path).lower()
    kind = tell_kind(head)
    if kind.name == "npy":
        with contextlib.suppress(BadImage):  # Whoever decodes it says why.
            # Of labels, of features, or of many images in one file.
            if len(shape := read_array_header(head).shape) not in (2, 3):
                return "other_file", f"a NumPy array of shape {shape}, which is not one image"
    endings = IMAGE_ENDINGS | SOUND_ENDINGS if with_sounds else IMAGE_ENDINGS
    groups = ("image", "unsupported_image", *(("sound",) if with_sounds else ()))
    if os.path.splitext(name)[1] in endings or kind.group in groups:
        return None
    if name in _SYSTEM_NAMES:
        return "system_file", "left by an operating system"
    if kind.group == "archive":
        return "archive", f"a {kind.name} archive; if it holds images, {kind.way_out}"
    if kind.group == "text":
        return "text", "text, by name and content"
    if kind.name == "video":
        return "other_file", "a video; ingest.video makes images of its frames"
    if kind.group == "sound":
        return "other_file", f"a sound; {kind.way_out}"
    if names_other_kind(path):
        return "other_file", "not an image, and not named like one"
    if kind.name not in ("empty", "unknown"):
        return "other_file", f"{kind.name}, by its content"
    return None
