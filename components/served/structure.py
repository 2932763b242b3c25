"""Where things are in a JPEG, PNG or WebP file: walks over its segments or chunks.

A walk ends at the end of the file, where the pixels begin, or after `_MOST_STEPS` (no camera writes
so much junk, or so many tiny segments). Nothing in a file is an error.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from image_pipeline.components.served.read import count_bytes, join_number, read_bytes, read_text

_MOST_STEPS = 2_000
_SOS = 0xDA


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
            components=tf.where(is_frame, position, found.components),  # where they are said
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
