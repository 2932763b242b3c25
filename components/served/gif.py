"""The first frame of a GIF with its transparent pixels, which TensorFlow's decoder makes black.

So the file is decoded twice: once as it is, and once with nothing but white in its colour tables,
where what is still black is transparent. TensorFlow also cuts off what a frame that is smaller than
the image has at its right and bottom, so the frame is moved to the corner, and put in its place
afterwards.
"""

from typing import NamedTuple

import tensorflow as tf

from image_pipeline.components.served.read import count_bytes, join_number, read_bytes, read_text

_MOST_STEPS = 10_000  # blocks and their parts before the first frame: 2.5 MB of comments
_GLOBAL_TABLE = 13  # behind the screen's description
_WHITE = b"\xff" * 768  # the largest colour table


class _Frame(NamedTuple):
    """Where the first frame's description is, and what was said before it; int64 scalars."""

    offset: tf.Tensor  # 0: not found
    is_transparent: tf.Tensor  # 0 or 1: a colour of the table stands for nothing


def decode_gif(file: tf.Tensor, background: tuple[int, int, int]) -> tf.Tensor:
    """Decodes the first frame on the whole image's area.

    Args:
      file: string scalar.
      background: RGB colour of what is transparent.

    Returns:
      uint8 [height, width, 3].
    """
    frame = _find_frame(file)
    is_found = tf.debugging.Assert(frame.offset > 0, ["the GIF has no frame"])
    with tf.control_dependencies([is_found]):
        place = read_bytes(file, frame.offset + 1, 9)
    left, top, width, height = (
        join_number(place[start : start + 2], is_little=True) for start in (0, 2, 4, 6)
    )
    screen = read_bytes(file, 6, 5)
    full_width = tf.maximum(join_number(screen[0:2], is_little=True), left + width)
    full_height = tf.maximum(join_number(screen[2:4], is_little=True), top + height)
    moved = _replace(file, frame.offset + 1, 4, b"\0\0\0\0")
    global_bytes, own_bytes = _table_bytes(screen[4]), _table_bytes(place[8])
    own_table = frame.offset + 10
    table = tf.where(own_bytes > 0, own_table, _GLOBAL_TABLE)
    outside = tf.where(
        frame.is_transparent > 0, tf.constant(background, tf.int64), read_bytes(file, table, 3)
    )
    color = _decode_frame(moved, height, width)

    def blank() -> tf.Tensor:
        white = _replace(moved, own_table, own_bytes, _WHITE)
        white = _replace(white, _GLOBAL_TABLE, global_bytes, _WHITE)
        is_seen = _decode_frame(white, height, width)[..., :1] > 0
        return tf.where(is_seen, color, tf.constant(background, tf.uint8))

    color = tf.cond(frame.is_transparent > 0, blank, lambda: color)
    return _place(color, top, left, full_height, full_width, tf.cast(outside, tf.uint8))


def _place(
    color: tf.Tensor,
    top: tf.Tensor,
    left: tf.Tensor,
    height: tf.Tensor,
    width: tf.Tensor,
    outside: tf.Tensor,
) -> tf.Tensor:
    """Puts a frame, uint8 [h, w, 3], on an area of [height, width] of one colour."""
    frame = tf.shape(color, out_type=tf.int64)
    paddings = tf.stack(
        [[top, height - top - frame[0]], [left, width - left - frame[1]], tf.zeros([2], tf.int64)]
    )
    is_inside = tf.pad(tf.ones_like(color[..., :1], tf.bool), paddings)
    return tf.cond(
        tf.reduce_all(frame[:2] == tf.stack([height, width])),
        lambda: color,
        lambda: tf.where(is_inside, tf.pad(color, paddings), outside),
    )


def _decode_frame(file: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Decodes the first frame, which lies in the corner; TensorFlow pads it to the largest one."""
    image = tf.io.decode_image(file, channels=3, expand_animations=False)
    frame = tf.slice(image, tf.zeros([3], tf.int64), tf.stack([height, width, 3]))
    return tf.ensure_shape(frame, [None, None, 3])


def _table_bytes(packed: tf.Tensor) -> tf.Tensor:
    """The size of the colour table that a description's packed byte announces."""
    sizes = tf.constant([3 * 2 ** (power + 1) for power in range(8)], tf.int64)
    return tf.where(packed & 0x80 != 0, tf.gather(sizes, packed & 7), 0)


def _replace(file: tf.Tensor, offset: tf.Tensor | int, count: tf.Tensor | int, by: bytes):
    """The file with `count` bytes replaced by as many of `by`."""
    rest = read_text(file, offset + count, count_bytes(file))
    return tf.strings.join([read_text(file, 0, offset), read_text(tf.constant(by), 0, count), rest])


def _find_frame(file: tf.Tensor) -> _Frame:
    """Walks over the blocks up to the first frame's description."""
    zero = tf.constant(0, tf.int64)

    def step(
        position: tf.Tensor, is_inside: tf.Tensor, found: _Frame
    ) -> tuple[tf.Tensor, tf.Tensor, _Frame]:
        head = read_bytes(file, position, 4)
        is_block = (~is_inside) & (head[0] == 0x21)
        is_frame = (~is_inside) & (head[0] == 0x2C)
        is_control = is_block & (head[1] == 0xF9)
        found = _Frame(
            offset=tf.where(is_frame, position, found.offset),
            is_transparent=tf.where(is_control, head[3] & 1, found.is_transparent),
        )
        # Inside a block are parts, each behind its size; a size of 0 ends it.
        past = tf.where(is_inside, 1 + head[0], tf.where(is_block, zero + 2, zero + 1))
        end = count_bytes(file)
        goes_on = is_block | (is_inside & (head[0] != 0))
        return tf.where(is_frame, end, position + past), goes_on, found

    start = _GLOBAL_TABLE + _table_bytes(read_bytes(file, 10, 1)[0])
    *_, found = tf.while_loop(
        lambda position, is_inside, found: position < count_bytes(file),
        step,
        (start, tf.constant(False), _Frame(zero, zero)),
        maximum_iterations=_MOST_STEPS,
    )
    return found
