"""A file of other values than 8-bit gray or RGB to the pixels that ingest would have stored.

Read are what keeps such values: NumPy's `.npy` files, and PNGs of 16 bits.
"""

import tensorflow as tf

from image_pipeline.components.images.bad_image import CORRUPT, UNSUPPORTED
from image_pipeline.components.served import kinds
from image_pipeline.components.served.kinds import count_bytes, join_number, read_bytes, read_text
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.options import ViewOptions

# By what is stored: the types that ingest reads, as `.npy` files name them.
_READ_AS = {
    "uint8": ("u1",),
    "uint16": ("u2",),
    "float16": ("f2",),
    "float32": ("f4", "f8", "i1", "i2"),
}
# In the header of an `.npy` file, which begins at this byte, or two later; plain types' have 118.
_DESCR, _SHAPE = r"'descr': *'([^']*)'", r"'shape': *\(([^)]*)\)"
_HEADER_START, _HEADER_BYTES = 10, 256
_NOT_VALUES = (
    f"{UNSUPPORTED}: a served model takes .npy files of the values that it has learned from, and "
    "of uint16 ones PNGs of 16 bits; save the image's values by numpy.save"
)
_TYPES = {
    **{"u1": tf.uint8, "u2": tf.uint16, "i1": tf.int8, "i2": tf.int16},
    **{"f2": tf.float16, "f4": tf.float32, "f8": tf.float64},
}


def decode_values(file: tf.Tensor, dtype: str, view: ViewOptions) -> tf.Tensor:
    """Decodes an `.npy` file or, where images are stored as uint16, a PNG of 16 bits.

    Args:
      file: string scalar.
      dtype: the type of the data set's stored values.
      view: gray is converted to RGB, or the other way, where its channels ask for it.

    Returns:
      `view.dtype` [height, width, view.channels].

    Raises:
      tf.errors.OpError: when it runs, if the file is damaged, or of another type or shape.
    """
    decoders = [(kinds.is_npy(file), lambda: _decode_npy(file, dtype, view.dtype))]
    if dtype == "uint16":
        decoders += [(kinds.is_png(file), lambda: _decode_png(file, view.dtype))]
    image = tf.case(decoders, default=lambda: _refuse("not a file that is served", view.dtype))
    return tf.ensure_shape(
        views.convert_channels(tf.ensure_shape(image, [None, None, None]), view.channels),
        [None, None, view.channels],
    )


def explain_unread(files: tf.Tensor, dtype: str, channels: int) -> tf.Tensor:
    """Why each of some files gave no values: string [batch], as `kinds.explain_unserved`.

    Of an `.npy` file of another type or shape it says which, and which is asked for.

    Args:
      files: string [batch], all of which failed.
      dtype: the type of the data set's stored values.
      channels: of the model's images.
    """
    reason = kinds.explain_unserved(files)
    others = (reason == kinds.NOT_DECODED) | kinds.is_jpeg(files) | kinds.is_webp(files)
    if dtype != "uint16":
        others |= kinds.is_png(files)
    reason = tf.where(others, _NOT_VALUES, reason)
    return tf.where(kinds.is_npy(files), _explain_npy(files, dtype, channels), reason)


def _explain_npy(files: tf.Tensor, dtype: str, channels: int) -> tf.Tensor:
    padded = tf.strings.join([files, b"\0" * _HEADER_START])
    # The header is one line of text; what comes after may be none.
    text = tf.strings.substr(padded, _HEADER_START, _HEADER_BYTES)
    header = tf.strings.split(tf.strings.join([text, "\n"]), "\n").to_tensor()[:, 0]
    is_plain = tf.strings.regex_full_match(header, f"(?s).*{_DESCR}.*{_SHAPE}.*")
    found, shape = _find(header, _DESCR), _find(header, _SHAPE)
    types = "|".join(_READ_AS[dtype])
    last = r"[13]" if channels in (1, 3) else str(channels)
    flat = r"|\d+, *\d+,?" if channels in (1, 3) else ""
    fits = tf.strings.regex_full_match(found, f"[<>|]?({types})")
    fits &= tf.strings.regex_full_match(shape, rf"\d+, *\d+, *{last},?{flat}")
    asked = f"), where {dtype} (height, width, {channels}) is required"
    difference = tf.strings.join([UNSUPPORTED, ": an array of ", found, " (", shape, asked])
    return tf.where(is_plain & ~fits, difference, CORRUPT)


def _refuse(why: str, dtype: str) -> tf.Tensor:
    with tf.control_dependencies([tf.debugging.Assert(False, [why])]):
        return tf.zeros([1, 1, 1], dtype)


def _decode_png(file: tf.Tensor, dtype: str) -> tf.Tensor:
    depth = read_bytes(file, 24, 1)[0]
    with tf.control_dependencies([tf.debugging.Assert(depth == 16, ["a PNG of fewer bits"])]):
        pixels = tf.io.decode_png(tf.identity(file), channels=0, dtype=tf.uint16)
    return tf.cast(pixels, dtype)


def _decode_npy(file: tf.Tensor, dtype: str, read_as: str) -> tf.Tensor:
    """Reads an array of an `.npy` file of any version: `read_as` [height, width, channels]."""
    is_first = read_bytes(file, 6, 1)[0] == 1
    lengths = read_bytes(file, 8, 4)
    length = tf.where(is_first, join_number(lengths[:2], True), join_number(lengths, True))
    start = tf.where(is_first, tf.constant(10, tf.int64), 12)
    header = read_text(file, start, length)
    data = read_text(file, start + length, count_bytes(file))
    values = _read_values(data, _find(header, _DESCR), dtype, read_as)
    sides = tf.strings.strip(tf.strings.split(_find(header, _SHAPE), ","))
    shape = tf.strings.to_number(tf.boolean_mask(sides, sides != b""), tf.int64)
    is_image = (tf.size(shape) == 2) | (tf.size(shape) == 3)
    checks = [
        tf.debugging.Assert(is_image, ["an array that is not an image of shape", shape]),
        tf.debugging.Assert(tf.size(values, tf.int64) == tf.reduce_prod(shape), ["cut off"]),
    ]
    with tf.control_dependencies(checks):
        shape = tf.concat([shape, tf.ones([1], tf.int64)], axis=0)[:3]
    is_fortran = _find(header, r"'fortran_order': *(\w*)") == b"True"
    return tf.cond(
        is_fortran,
        lambda: tf.transpose(tf.reshape(values, shape[::-1]), [2, 1, 0]),
        lambda: tf.reshape(values, shape),
    )


def _find(header: tf.Tensor, pattern: str) -> tf.Tensor:
    """The group of a pattern in a header; all of it, where the pattern is not in it."""
    return tf.strings.regex_replace(header, f"(?s).*{pattern}.*", r"\1")


def _read_values(data: tf.Tensor, found: tf.Tensor, dtype: str, read_as: str) -> tf.Tensor:
    """An array's values: `read_as` [values], all of them finite."""

    def read(name: str, is_little: bool) -> tf.Tensor:
        values = tf.cast(tf.io.decode_raw(data, _TYPES[name], is_little), read_as)
        if read_as != "float32":
            return values
        are_finite = tf.reduce_all(tf.math.is_finite(values))
        with tf.control_dependencies([tf.debugging.Assert(are_finite, ["not finite"])]):
            return tf.identity(values)

    known = [
        (found == order + name, lambda name=name, order=order: read(name, order != ">"))
        for name in _READ_AS[dtype]
        for order in ("<", ">", "|")
    ]
    return tf.case(known, default=lambda: _refuse("another type", read_as)[0, 0])
