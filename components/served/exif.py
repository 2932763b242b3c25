"""Where EXIF, alpha and scans are in a JPEG, PNG or WebP file, and which way up EXIF turns it.

By hand, in TensorFlow ops: its decoders neither read EXIF nor say what else a file holds. A walk
over segments or chunks ends where the pixels begin, at the end of the file, or after `_MOST_STEPS`
(no camera writes so much junk, or so many tiny segments). Nothing in a file is an error.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from image_pipeline.components.served.kinds import count_bytes, join_number, read_bytes, read_text

_MOST_STEPS = 2_000
_SOS = 0xDA
_ORIENTATION = 0x0112  # EXIF 2.32, 4.6.4 A
_ENTRY_BYTES, _TAGS = 12, 2**16
# Bytes of a value by its type in TIFF 6.0 (0: not a type), and the types of whole numbers.
_TYPE_BYTES = (0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 0)
_WHOLE_NUMBERS = (3, 4, 6, 8, 9, 13)
_ENDIANS = (b"II*\0", b"MM\0*", b"II\0*", b"MM*\0")


class Structure(NamedTuple):
    """What a walk found; int64 scalars, 0 where there is none."""

    exif_offset: tf.Tensor
    exif_bytes: tf.Tensor
    components: tf.Tensor  # of a JPEG's frame: 1, 3 or 4
    transparency: tf.Tensor  # of a PNG: the offset of its tRNS chunk
    adobe: tf.Tensor  # of a JPEG: the offset of Adobe's segment
    scans: tf.Tensor  # of a JPEG: 1 if its headers say that it has one


def no_structure() -> Structure:
    """The structure of a file in which nothing was found."""
    zero = tf.constant(0, tf.int64)
    return Structure(zero, zero, zero, zero, zero, zero)


def walk_jpeg(file: tf.Tensor) -> Structure:
    """Walks a JPEG's segments up to its pixels; as Pillow does, past bytes between segments."""

    def step(position: tf.Tensor, found: Structure) -> tuple[tf.Tensor, Structure]:
        head = read_bytes(file, position, 10)
        code, size = head[1], join_number(head[2:4], is_little=False)
        is_marker = (head[0] == 0xFF) & (code != 0xFF) & (code != 0)
        has_size = is_marker & ~((code >= 0xD0) & (code <= 0xD9))
        is_exif = is_marker & (code == 0xE1) & (read_text(file, position + 4, 6) == b"Exif\0\0")
        is_exif &= found.exif_offset == 0
        is_adobe = is_marker & (code == 0xEE) & (read_text(file, position + 4, 5) == b"Adobe")
        tables = (code == 0xC4) | (code == 0xC8) | (code == 0xCC)
        is_frame = is_marker & (code >= 0xC0) & (code <= 0xCF) & ~tables
        found = found._replace(
            exif_offset=tf.where(is_exif, position + 10, found.exif_offset),
            exif_bytes=tf.where(is_exif, size - 8, found.exif_bytes),
            components=tf.where(is_frame, position, found.components),  # where they are stated
            adobe=tf.where(is_adobe, position, found.adobe),
        )
        past = tf.where(has_size, 2 + size, tf.where(is_marker, tf.constant(2, tf.int64), 1))
        end = count_bytes(file)
        return tf.where(is_marker & (code == _SOS), end + position, position + past), found

    last, found = _walk(file, 2, step)
    frame, scan = (
        read_bytes(file, found.components, 10),
        read_bytes(file, last - count_bytes(file), 5),
    )
    components = tf.where(found.components > 0, frame[9], 0)
    is_single = (frame[1] - 0xC0 <= 1) & (scan[1] == _SOS) & (scan[4] == components)
    return found._replace(components=components, scans=tf.cast(is_single, tf.int64))


def walk_png(file: tf.Tensor) -> Structure:
    """Walks a PNG's chunks up to its pixels."""

    def step(position: tf.Tensor, found: Structure) -> tuple[tf.Tensor, Structure]:
        size = join_number(read_bytes(file, position, 4), is_little=False)
        name = read_text(file, position + 4, 4)
        is_exif, is_last = name == b"eXIf", (name == b"IDAT") | (name == b"IEND")
        found = found._replace(
            exif_offset=tf.where(is_exif, position + 8, found.exif_offset),
            exif_bytes=tf.where(is_exif, size, found.exif_bytes),
            transparency=tf.where(name == b"tRNS", position, found.transparency),
        )
        return tf.where(is_last, count_bytes(file), position + 12 + size), found

    return _walk(file, 8, step)[1]


def walk_webp(file: tf.Tensor) -> Structure:
    """Walks a WebP's chunks; a file that does not announce EXIF (VP8X, bit 3) has none."""
    announced = (read_text(file, 12, 4) == b"VP8X") & (read_bytes(file, 20, 1)[0] & 8 != 0)

    def step(position: tf.Tensor, found: Structure) -> tuple[tf.Tensor, Structure]:
        size = join_number(read_bytes(file, position + 4, 4), is_little=True)
        is_exif = announced & (read_text(file, position, 4) == b"EXIF") & (found.exif_offset == 0)
        found = found._replace(
            exif_offset=tf.where(is_exif, position + 8, found.exif_offset),
            exif_bytes=tf.where(is_exif, size, found.exif_bytes),
        )
        return position + 8 + size + size % 2, found

    return _walk(file, 12, step)[1]


def _walk(
    file: tf.Tensor,
    start: int,
    step: Callable[[tf.Tensor, Structure], tuple[tf.Tensor, Structure]],
) -> tuple[tf.Tensor, Structure]:
    """Where it ended, and what was found."""
    return tf.while_loop(
        lambda position, found: position < count_bytes(file),
        step,
        (tf.constant(start, tf.int64), no_structure()),
        maximum_iterations=_MOST_STEPS,
    )


def read_orientation(file: tf.Tensor, structure: Structure) -> tf.Tensor:
    """The orientation that a file's EXIF states: int32 scalar, 1 to 8.

    EXIF that is broken, cut off or states anything else gives 1, as in ingest: it never fails.
    """
    exif = read_text(file, structure.exif_offset, structure.exif_bytes)
    exif = tf.cond(
        tf.strings.substr(exif, 0, 6) == b"Exif\0\0",
        lambda: tf.strings.substr(exif, 6, -1),
        lambda: exif,
    )
    head = tf.strings.substr(exif, 0, 4)
    is_exif = tf.reduce_any(tf.stack([head == each for each in _ENDIANS]))
    found = tf.cond(
        is_exif & (structure.exif_offset > 0), lambda: _find_tag(exif), lambda: _as_int64(1)
    )
    return tf.cast(tf.where((found >= 1) & (found <= 8), found, 1), tf.int32)


def _find_tag(exif: tf.Tensor) -> tf.Tensor:
    """The value of the orientation's entry in the first directory: int64 scalar, 1 if none."""
    is_little = tf.strings.substr(exif, 0, 1) == b"I"
    start = join_number(read_bytes(exif, 4, 4), is_little)
    count = join_number(read_bytes(exif, start, 2), is_little)
    listed = tf.io.decode_raw(read_text(exif, start + 2, count * _ENTRY_BYTES), tf.uint8)
    whole = tf.shape(listed)[0] // _ENTRY_BYTES
    entries = tf.reshape(tf.cast(listed[: whole * _ENTRY_BYTES], tf.int64), [whole, _ENTRY_BYTES])
    tags, kinds, counts, offsets = (
        join_number(entries[:, first:last], is_little)
        for first, last in ((0, 2), (2, 4), (4, 8), (8, 12))
    )
    sizes = counts * tf.gather(_as_int64(_TYPE_BYTES), tf.minimum(kinds, len(_TYPE_BYTES) - 1))
    # As Pillow 13 does: of entries of one tag the first counts. Values of more than four bytes lie
    # where the entry says; those that add up to more than there is are passed over, and nothing is
    # read after an entry whose values are cut off.
    rows, length = tf.range(tf.size(sizes)), count_bytes(exif)
    stated = tf.where(sizes > 0, rows, rows.dtype.max)
    first = tf.math.unsorted_segment_min(stated, tags, _TAGS)
    is_new = rows <= tf.gather(first, tags)
    lies_elsewhere = (sizes > 4) & is_new
    fits = tf.cumsum(tf.where(lies_elsewhere, sizes, 0)) <= length
    is_cut = lies_elsewhere & fits & (offsets + sizes > length)
    is_read = (tf.cumsum(tf.cast(is_cut, tf.int64)) == 0) & (fits | (sizes <= 4)) & (sizes > 0)
    found = tf.where(is_read & (tags == _ORIENTATION))[:1, 0]
    is_known = tf.reduce_any(tf.gather(kinds, found)[:, tf.newaxis] == _as_int64(_WHOLE_NUMBERS))

    def read_value() -> tf.Tensor:
        row = found[0]
        inside = start + 2 + row * _ENTRY_BYTES + 8
        value = read_bytes(exif, tf.where(sizes[row] > 4, offsets[row], inside), 4)
        numbers = [join_number(value[:size], is_little) for size in (1, 2, 4)]
        return tf.gather(numbers, tf.gather(_as_int64(_TYPE_BYTES), kinds[row]) // 2)

    return tf.cond(is_known, read_value, lambda: _as_int64(1))


def _as_int64(value: int | list[int] | tuple[int, ...]) -> tf.Tensor:
    return tf.constant(value, tf.int64)


def turn_upright(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """Turns an image as its EXIF orientation asks; sides swap for orientations 5 to 8.

    Args:
      image: uint8 [height, width, channels].
      orientation: int32 scalar, 1 to 8.
    """

    def turn() -> tf.Tensor:
        turned = tf.cond(
            orientation >= 5, lambda: tf.transpose(image, [1, 0, 2]), lambda: tf.identity(image)
        )
        flips = [tf.reduce_any(orientation == each) for each in ((3, 4, 7, 8), (2, 3, 6, 7))]
        for axis, is_flipped in enumerate(flips):
            turned = _flip(turned, axis, is_flipped)
        return turned

    return tf.cond(orientation == 1, lambda: image, turn)


def _flip(image: tf.Tensor, axis: int, is_flipped: tf.Tensor) -> tf.Tensor:
    return tf.cond(is_flipped, lambda: tf.reverse(image, [axis]), lambda: image)
