"""A GIF's blocks, counted before Pillow keeps each in a list of its own.

Source: https://www.w3.org/Graphics/GIF/spec-gif89a.txt.
"""

from image_pipeline.components.images.bad_image import UNSUPPORTED, BadImage

_HEADER_BYTES, _DESCRIPTOR_BYTES = 13, 10
_EXTENSION, _IMAGE, _END = 0x21, 0x2C, 0x3B
_HAS_PALETTE = 0x80
_MOST_PARTS = 100_000
"""Of what is beside the pixels of a frame: 25 MB of comments. Pillow takes 60 bytes for each."""


def count_frames(data: bytes, most: int | None = None) -> int:
    """Counts a GIF's frames, as far as they are whole; three times as fast as Pillow does.

    Args:
      data: the whole file.
      most: ends there.

    Raises:
      BadImage: there are too many blocks before a frame.
    """
    frames, parts = 0, 0
    try:
        at = _HEADER_BYTES + _palette_bytes(data[10])
        while frames != most and data[at] != _END:
            if data[at] == _IMAGE:
                at += _DESCRIPTOR_BYTES + _palette_bytes(data[at + 9]) + 1
                frames, parts = frames + 1, 0
                while size := data[at]:
                    at += 1 + size
            elif data[at] == _EXTENSION:
                at += 2
                while size := data[at]:
                    at, parts = at + 1 + size, parts + 1
            at, parts = at + 1, parts + 1
            if parts > _MOST_PARTS:
                message = f"a GIF of more than {_MOST_PARTS:,} blocks beside the pixels of a frame"
                raise BadImage(UNSUPPORTED, f"{message}; save it anew without comments")
    except IndexError:  # It ends there.
        pass
    return frames


def _palette_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & _HAS_PALETTE else 0
