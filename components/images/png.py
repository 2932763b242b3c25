"""A PNG's chunks: an animation's still image, and metadata that comes after the pixels."""

import zlib
from typing import NamedTuple

from image_pipeline.components.images.bad_image import UNSUPPORTED, BadImage

SIGNATURE = b"\x89PNG\r\n\x1a\n"
DEPTH = 24  # where a file says how many bits its samples have
_PIXELS, _END = b"IDAT", b"IEND"
# PNG 3rd edition, 11.3.6: the chunks of an animation. Without them, decoders see the default image
# in IDAT, which need not be the first frame.
_ANIMATION = (b"acTL", b"fcTL", b"fdAT")
# Chunks that may occur anywhere (5.6), and that may state an orientation.
_METADATA = (b"eXIf", b"tEXt", b"zTXt", b"iTXt")


# Those of 256 MB of pixels in pieces of 8 kB, which is what libpng writes, three times over.
_MOST_CHUNKS = 100_000
_MOST_MISSING_BYTES = 2**24


class _Chunk(NamedTuple):
    name: bytes
    start: int
    end: int  # after its checksum


def take_default_image(data: bytes) -> bytes:
    """Returns the file without its animation, or the file itself if it has none.

    OpenCV decodes the first frame; a viewer of still images, and TensorFlow, show the default one.
    """
    if b"acTL" not in data:
        return data
    chunks = _list_chunks(data)
    if not any(chunk.name in _ANIMATION for chunk in chunks):
        return data
    kept = [data[c.start : c.end] for c in chunks if c.name not in _ANIMATION]
    behind = chunks[-1].end  # A truncated end stays, and the decoder finds it.
    return b"".join([SIGNATURE, *kept, data[behind:]])


def move_metadata_up(data: bytes) -> bytes:
    """Returns the file with all metadata before its pixels, for readers that stop there."""
    if not data.startswith(SIGNATURE):
        return data
    chunks = _list_chunks(data)
    first = next((n for n, chunk in enumerate(chunks) if chunk.name == _PIXELS), len(chunks))
    late = [chunk for chunk in chunks[first:] if chunk.name in _METADATA]
    late = [chunk for chunk in late if _is_whole(data, chunk)]
    if not late:
        return data
    at = chunks[first].start
    return b"".join([data[:at], *(data[c.start : c.end] for c in late), data[at:]])


def has_whole_pixels(data: bytes) -> bool:
    """Whether the checksums of the chunks that hold a PNG's pixels are right."""
    return all(_is_whole(data, chunk) for chunk in _list_chunks(data) if chunk.name == _PIXELS)


def misses_much(data: bytes) -> bool:
    """Whether a chunk says that it goes on far behind the file's end: OpenCV would make room."""
    chunks = _list_chunks(data)
    if chunks and chunks[-1].name == _END:
        return False
    start = chunks[-1].end if chunks else len(SIGNATURE)
    return start + int.from_bytes(data[start : start + 4], "big") > len(data) + _MOST_MISSING_BYTES


def read_transparent_level(data: bytes) -> int | None:
    """The gray level that stands for transparent (tRNS), as the file counts levels; None if none.

    Of its two bytes only the bits of a sample count (PNG 3rd edition, 11.3.1.1).
    """
    for chunk in _list_chunks(data):
        if chunk.name == _PIXELS:
            return None
        if chunk.name == b"tRNS" and chunk.end - chunk.start == 14:
            depth = data[DEPTH]
            return int.from_bytes(data[chunk.start + 8 : chunk.start + 10], "big") % 2**depth
    return None


def _list_chunks(data: bytes) -> list[_Chunk]:
    """Lists the chunks as far as they are whole, to the end chunk; raises BadImage of too many."""
    chunks: list[_Chunk] = []
    start = len(SIGNATURE)
    while start + 12 <= len(data):
        end = start + 12 + int.from_bytes(data[start : start + 4], "big")
        if end > len(data):
            break
        if len(chunks) == _MOST_CHUNKS:
            message = f"a PNG of more than {_MOST_CHUNKS:,} chunks, which nothing writes"
            raise BadImage(UNSUPPORTED, f"{message}; save it anew")
        chunks.append(_Chunk(data[start + 4 : start + 8], start, end))
        if chunks[-1].name == _END:
            break
        start = end
    return chunks


def _is_whole(data: bytes, chunk: _Chunk) -> bool:
    """Tells whether the checksum is right: broken metadata is no reason to lose an image."""
    stored = int.from_bytes(data[chunk.end - 4 : chunk.end], "big")
    return zlib.crc32(data[chunk.start + 4 : chunk.end - 4]) == stored
