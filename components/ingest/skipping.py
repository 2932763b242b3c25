"""Files that lie among images but never were one: they are skipped and counted, not called bad.

A file is skipped only if its name is not an image's and neither is its content. So an image of any
name is written, and what is called an image but is none is quarantined.
"""

import codecs
import os
import re

# Names of images, read or not: whatever such a file holds, it was meant as an image.
IMAGE_ENDINGS = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".apng", ".webp", ".tif", ".tiff"),
        *(".bmp", ".dib", ".gif", ".avif", ".heic", ".heif", ".jxl", ".jp2", ".j2k", ".jpx"),
        *(".jpf", ".svg", ".svgz", ".psd", ".psb", ".exr", ".hdr", ".tga", ".ico", ".cur"),
        *(".ppm", ".pgm", ".pbm", ".pnm", ".pam", ".pfm", ".pcx", ".xbm", ".xpm", ".dds", ".eps"),
        *(".dcm", ".fits", ".fit", ".nef", ".cr2", ".cr3", ".arw", ".dng", ".raf", ".orf", ".rw2"),
    )
)
# Names of what is none, for content that says nothing: a table in Latin-1, a video, an array.
_OTHER_ENDINGS = frozenset(
    (
        *(".txt", ".md", ".rst", ".csv", ".tsv", ".json", ".jsonl", ".xml", ".yaml", ".yml"),
        *(".html", ".htm", ".css", ".js", ".log", ".ini", ".cfg", ".toml", ".tex", ".bib", ".rtf"),
        *(".py", ".pyc", ".ipynb", ".sh", ".bat", ".m", ".r", ".c", ".cpp", ".h", ".java"),
        *(".pdf", ".doc", ".docx", ".xls", ".xlsx", ".ppt", ".pptx", ".odt", ".ods", ".odp"),
        *(".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst", ".lz4", ".cab"),
        *(".db", ".sqlite", ".sqlite3", ".mdb", ".npy", ".npz", ".mat", ".pkl", ".pickle"),
        *(".h5", ".hdf5", ".parquet", ".arrow", ".feather", ".tfrecord", ".tfrecords", ".lmdb"),
        *(".pt", ".pth", ".onnx", ".pb", ".ckpt", ".safetensors", ".md5", ".sha1", ".sha256"),
        *(".mp4", ".avi", ".mov", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv", ".flv", ".m4v"),
        *(".mp3", ".wav", ".flac", ".ogg", ".m4a", ".exe", ".dll", ".so", ".lnk", ".url", ".bak"),
    )
)
# What operating systems leave in folders; macOS's begin with a dot, and are not even listed.
_SYSTEM_NAMES = frozenset(
    ("thumbs.db", "ehthumbs.db", "ehthumbs_vista.db", "desktop.ini", "icon\r", "folder.htt")
)
_IMAGE_MAGIC = re.compile(
    rb"\xff\xd8|\x89PNG|GIF8|BM|RIFF....WEBP|(?:II|MM)(?:\*\0|\0\*|\+\0|\0\+)|....ftyp(?:avi|hei|hev|mif|msf)"
    rb"|8BPS|\0\0\0\x0c(?:jP  |JXL )|\xff\x4f\xff\x51|\xff\x0a|v/1\x01|\0\0[\1\2]\0",
    re.DOTALL,
)
_IMAGE_TEXT = re.compile(
    rb"P[1-7][\s#]|\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?(?:<!DOCTYPE svg[^>]*>\s*)?<svg\b",
    re.DOTALL,
)
_ARCHIVE_MAGIC = re.compile(
    rb"PK(?:\x03\x04|\x05\x06|\x07\x08)|\x1f\x8b|BZh[1-9]|\xfd7zXZ\0|7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|\x28\xb5\x2f\xfd"
    rb"|\x04\x22\x4d\x18|MSCF|.{257}ustar",
    re.DOTALL,
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")  # text has tabs, line ends, escapes


def names_other_kind(path: str) -> bool:
    """Tells whether a path alone says that the file is no image."""
    name = os.path.basename(path).lower()
    return name in _SYSTEM_NAMES or os.path.splitext(name)[1] in _OTHER_ENDINGS


def find_other_kind(path: str, head: bytes) -> tuple[str, str] | None:
    """Says what a file is that is no image by its name nor by its content.

    Args:
      path: with slashes.
      head: the file's first kilobytes; all of it, if it has no more.

    Returns:
      The kind (`system_file`, `archive`, `text` or `other_file`) and a message; None for what is
      an image, was meant as one, or cannot be told.
    """
    name = os.path.basename(path).lower()
    if os.path.splitext(name)[1] in IMAGE_ENDINGS or _IMAGE_TEXT.match(head):
        return None
    is_text = _is_text(head)
    if not is_text and _IMAGE_MAGIC.match(head):
        return None
    if name in _SYSTEM_NAMES:
        return "system_file", "left by an operating system"
    if _ARCHIVE_MAGIC.match(head):
        return "archive", "an archive; if it holds images, unpack it"
    if is_text:
        return "text", "text, by name and content"
    if names_other_kind(path):
        return "other_file", "neither named as an image nor one"
    return None


def _is_text(head: bytes) -> bool:
    """UTF-8 or, with its mark, UTF-16, without characters that no text has; and not empty."""
    marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    decoder = codecs.getincrementaldecoder("utf-16" if marked else "utf-8")()
    try:
        text = decoder.decode(head)  # The last character may be cut.
    except UnicodeDecodeError:
        return False
    return bool(text) and not _CONTROL.search(text)
