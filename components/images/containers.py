"""What PNG and GIF files hold beside pixels: chunks and blocks, walked before a decoder sees them.

By hand: Pillow stops reading metadata at a PNG's pixels and keeps each of a GIF's blocks in a list,
and OpenCV makes room for whatever length a chunk claims, and decodes an animation's first frame.
Sources: PNG 3rd edition; https://www.w3.org/Graphics/GIF/spec-gif89a.txt.
"""

import zlib
from typing import NamedTuple

from image_pipeline.components.images.bad_image import UNSUPPORTED, BadImage

SIGNATURE = b"\x89PNG\r\n\x1a\n"
DEPTH = 24  # where a file says how many bits its samples have
_PIXELS, _PNG_END = b"IDAT", b"IEND"
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
    if chunks and chunks[-1].name == _PNG_END:
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
            raise BadImage(UNSUPPORTED, f"{message}; save it again")
        chunks.append(_Chunk(data[start + 4 : start + 8], start, end))
        if chunks[-1].name == _PNG_END:
            break
        start = end
    return chunks


def _is_whole(data: bytes, chunk: _Chunk) -> bool:
    """Tells whether the checksum is right: broken metadata is not a reason to lose an image."""
    stored = int.from_bytes(data[chunk.end - 4 : chunk.end], "big")
    return zlib.crc32(data[chunk.start + 4 : chunk.end - 4]) == stored


_GIF_HEADER_BYTES, _DESCRIPTOR_BYTES = 13, 10
_GIF_EXTENSION, _GIF_IMAGE, _GIF_END = 0x21, 0x2C, 0x3B
_HAS_PALETTE = 0x80
_MOST_PARTS = 100_000
"""Of what is beside the pixels of a frame: 25 MB of comments. Pillow takes 60 bytes for each."""


def count_gif_frames(data: bytes, most: int | None = None) -> int:
    """Counts a GIF's frames, as far as they are whole; three times as fast as Pillow does.

    Raises:
      BadImage: there are too many blocks before a frame.
    """
    frames, parts = 0, 0
    try:
        at = _GIF_HEADER_BYTES + _palette_bytes(data[10])
        while frames != most and data[at] != _GIF_END:
            if data[at] == _GIF_IMAGE:
                at += _DESCRIPTOR_BYTES + _palette_bytes(data[at + 9]) + 1
                frames, parts = frames + 1, 0
                while size := data[at]:
                    at += 1 + size
            elif data[at] == _GIF_EXTENSION:
                at += 2
                while size := data[at]:
                    at, parts = at + 1 + size, parts + 1
            at, parts = at + 1, parts + 1
            if parts > _MOST_PARTS:
                message = f"a GIF of more than {_MOST_PARTS:,} blocks beside the pixels of a frame"
                raise BadImage(UNSUPPORTED, f"{message}; save it again without comments")
    except IndexError:  # It ends there.
        pass
    return frames


def _palette_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & _HAS_PALETTE else 0
