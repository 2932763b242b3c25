"""Windows bitmaps in TensorFlow ops: with palettes, alpha and 16 bits, as ingest reads them.

TensorFlow's own decoder takes the indices of a palette for gray levels. Compressed bitmaps (RLE)
are not served.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from image_pipeline.components.served.read import join_number, read_bytes, read_text

_OLD_HEADER = 12  # OS/2's: sides of 16 bits, and palettes of three bytes a colour
_PLAIN, _MASKED = 0, 3  # BI_RGB, BI_BITFIELDS
_ALPHA_HEADER = 56  # the least header with a mask of its own for alpha
_PALETTE_BITS = (1, 4, 8)
_MOST_SIDE_PX = 1 << 15


class _Header(NamedTuple):
    """int64 scalars."""

    header_bytes: tf.Tensor
    data_offset: tf.Tensor
    width: tf.Tensor
    height: tf.Tensor  # negative: the first line is the topmost
    bits: tf.Tensor
    compression: tf.Tensor


def decode_bmp(file: tf.Tensor) -> tf.Tensor:
    """Decodes a bitmap.

    Args:
      file: string scalar.

    Returns:
      uint8 [height, width, 4]: RGB and opacity.

    Raises:
      tf.errors.InvalidArgumentError: when it runs, if the file is cut off or of another kind.
    """
    header = _read_header(file)
    with tf.control_dependencies(_check(header)):
        height, width = tf.abs(header.height), tf.identity(header.width)
    line_bytes = (width * header.bits + 31) // 32 * 4
    data = tf.io.decode_raw(read_text(file, header.data_offset, height * line_bytes), tf.uint8)
    lines = tf.reshape(data, tf.stack([height, line_bytes]))  # an error if bytes are missing
    lines = tf.cond(header.height > 0, lambda: tf.reverse(lines, [0]), lambda: lines)
    decoders: dict[int, Callable[[], tf.Tensor]] = {
        16: lambda: _unpack_16(file, header, lines, width),
        24: lambda: _add_alpha(_group(lines, width, 3)[..., ::-1]),
        32: lambda: _unpack_32(file, header, lines, width),
    }
    for bits in _PALETTE_BITS:
        decoders[bits] = functools.partial(_look_up, file, header, lines, width, bits)
    pairs = [(header.bits == bits, decode) for bits, decode in decoders.items()]
    return tf.ensure_shape(tf.case(pairs, exclusive=True), [None, None, 4])


def _read_header(file: tf.Tensor) -> _Header:
    def number(offset: int, count: int) -> tf.Tensor:
        return join_number(read_bytes(file, offset, count), is_little=True)

    is_old = number(14, 4) == _OLD_HEADER
    height = number(22, 4)
    return _Header(
        header_bytes=number(14, 4),
        data_offset=number(10, 4),
        width=tf.where(is_old, number(18, 2), number(18, 4)),
        height=tf.where(
            is_old,
            number(20, 2),
            height - tf.where(height >= 1 << 31, 1 << 32, tf.constant(0, tf.int64)),
        ),
        bits=tf.where(is_old, number(24, 2), number(28, 2)),
        compression=tf.where(is_old, tf.constant(_PLAIN, tf.int64), number(30, 4)),
    )


def _check(header: _Header) -> list[tf.Operation]:
    known = tf.constant([*_PALETTE_BITS, 16, 24, 32], tf.int64)
    is_masked = (header.compression == _MASKED) & ((header.bits == 16) | (header.bits == 32))
    is_good = tf.reduce_any(known == header.bits)
    is_good &= (header.compression == _PLAIN) | is_masked
    for side in (header.width, tf.abs(header.height)):
        is_good &= (side > 0) & (side <= _MOST_SIDE_PX)
    return [tf.debugging.Assert(is_good, ["a bitmap of this kind is not served"])]


def _group(lines: tf.Tensor, width: tf.Tensor, count: int) -> tf.Tensor:
    """uint8 [height, line_bytes] to [height, width, count]."""
    shape = tf.stack([tf.shape(lines, out_type=tf.int64)[0], width, count])
    return tf.reshape(lines[:, : width * count], shape)


def _add_alpha(color: tf.Tensor) -> tf.Tensor:
    return tf.concat([color, tf.fill(tf.shape(color[..., :1]), tf.constant(255, tf.uint8))], -1)


def _look_up(
    file: tf.Tensor, header: _Header, lines: tf.Tensor, width: tf.Tensor, bits: int
) -> tf.Tensor:
    """Decodes indices of a palette, 8 // `bits` of them in a byte."""
    shifts = tf.range(8 - bits, -1, -bits, dtype=tf.int32)
    packed = tf.cast(lines, tf.int32)[..., tf.newaxis]
    indices = tf.bitwise.bitwise_and(tf.bitwise.right_shift(packed, shifts), (1 << bits) - 1)
    indices = tf.reshape(indices, [tf.shape(lines)[0], -1])[:, :width]
    entries = [_read_palette(file, header, bits, size) for size in (3, 4)]
    palette = tf.where(header.header_bytes == _OLD_HEADER, *entries)
    return _add_alpha(tf.gather(palette, indices))


def _read_palette(file: tf.Tensor, header: _Header, bits: int, size: int) -> tf.Tensor:
    """The palette's colours of `size` bytes, blue first: uint8 RGB [2**bits, 3]."""
    offset = 14 + header.header_bytes
    found = tf.reshape(read_bytes(file, offset, size << bits), [1 << bits, size])
    # A shorter palette ends where the pixels begin.
    is_entry = offset + size * tf.range(1, 1 + (1 << bits), dtype=tf.int64) <= header.data_offset
    return tf.cast(tf.where(is_entry[:, tf.newaxis], found[:, 2::-1], 0), tf.uint8)


def _read_masks(file: tf.Tensor, header: _Header, plain: tuple[int, ...]) -> tf.Tensor:
    """The bits of red, green, blue and alpha in a pixel: int64 [4]."""
    masks = tf.stack(
        [join_number(read_bytes(file, 54 + 4 * turn, 4), is_little=True) for turn in range(4)]
    )
    has_alpha = tf.stack([tf.constant(True)] * 3 + [header.header_bytes >= _ALPHA_HEADER])
    return tf.where(
        header.compression == _MASKED, tf.where(has_alpha, masks, 0), tf.constant(plain, tf.int64)
    )


def _unpack_16(file: tf.Tensor, header: _Header, lines: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    masks = _read_masks(file, header, (0x7C00, 0x03E0, 0x001F, 0))
    return _add_alpha(_unmask(_group(lines, width, 2), masks)[..., :3])


def _unpack_32(file: tf.Tensor, header: _Header, lines: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    masks = _read_masks(file, header, (0xFF0000, 0xFF00, 0xFF, 0))
    pixels = _unmask(_group(lines, width, 4), masks)
    return tf.cond(masks[3] != 0, lambda: pixels, lambda: _add_alpha(pixels[..., :3]))


def _unmask(groups: tf.Tensor, masks: tf.Tensor) -> tf.Tensor:
    """The levels, 0 to 255 and cut off, that masks take out of pixels: uint8 [h, w, 4]."""
    values = join_number(tf.cast(groups, tf.int64), is_little=True)[..., tf.newaxis]
    lowest = tf.maximum(tf.bitwise.bitwise_and(masks, -masks), 1)
    levels = tf.bitwise.bitwise_and(values, masks) // lowest
    return tf.cast(levels * 255 // tf.maximum(masks // lowest, 1), tf.uint8)
