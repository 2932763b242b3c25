"""An image file to the upright RGB or gray pixels that ingest would have made of it.

Unlike `views.graph.decode_image`, which reads what ingest stored: a file from elsewhere may be
turned by its EXIF, have transparent pixels, 16 bits, a palette, or CMYK's four channels. What
TensorFlow would decode otherwise than ingest (GIF's transparency, BMP's palettes) is refused.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components.images.jpeg import MOST_SCANS
from image_pipeline.components.images.sound import SoundOptions, make_filters, make_window
from image_pipeline.components.served import kinds
from image_pipeline.components.served.exif import (
    Structure,
    no_structure,
    read_orientation,
    turn_upright,
    walk_jpeg,
    walk_png,
    walk_webp,
)
from image_pipeline.components.served.kinds import explain_unserved
from image_pipeline.components.views import graph as views

Background = tuple[int, int, int]
# Files decoded at a time; as many as `tf.map_fn` runs.
_AT_ONCE = 10
Depth = tuple[int, int]
"""The values of 16 bits that become 0 and 255."""
ALL_LEVELS: Depth = (0, 65_535)
# The start of a JPEG and Adobe's segment: version 100, colours not transformed.
_ADOBE_CMYK = b"\xff\xd8\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0"
# libpng's weights of red, green and blue (of 32768, cut off, not rounded), by which TensorFlow
# makes gray of a stored PNG in evaluation.
_LUMA = (9797, 19234, 3737)


def decode_image(
    file: tf.Tensor,
    channels: int,
    background: Background,
    sound: SoundOptions | None = None,
    depth: Depth = ALL_LEVELS,
) -> tf.Tensor:
    """Decodes a JPEG, PNG or still WebP file; or draws a WAV file's sound.

    Colour profiles are not converted.

    Args:
      file: string scalar.
      channels: 1 or 3.
      background: RGB colour on which transparent pixels are laid.
      sound: how sounds are drawn; None if they are not served.
      depth: how 16 bits become 8.

    Returns:
      uint8 [height, width, channels], upright.

    Raises:
      tf.errors.OpError: when it runs, if the file is damaged, or of a kind that is not served.
    """
    walks = [
        (kinds.is_jpeg(file), lambda: walk_jpeg(file)),
        (kinds.is_png(file), lambda: walk_png(file)),
        (kinds.is_webp(file), lambda: walk_webp(file)),
    ]
    structure = tf.case(walks, default=no_structure)
    decoders = [
        (kinds.is_jpeg(file), lambda: _decode_jpeg(file, channels, structure)),
        (kinds.is_png(file), lambda: _decode_png(file, channels, structure, background, depth)),
        (kinds.is_webp(file), lambda: _decode_webp(file, channels, background)),
    ]
    if sound is not None:
        decoders.append((kinds.is_wav(file), lambda: decode_sound(file, sound, channels)))
    image = tf.case(decoders, default=lambda: _refuse(channels))
    image = turn_upright(image, read_orientation(file, structure))
    return tf.ensure_shape(image, [None, None, channels])


@functools.cache
def trace_decoder(
    channels: int,
    background: Background,
    sound: SoundOptions | None = None,
    depth: Depth = ALL_LEVELS,
) -> tf.types.experimental.GenericFunction:
    """`decode_image` as a graph of its own, traced once for all models that a process exports.

    Tracing takes 1.4 s, most of what an export takes.
    """

    def decode(file: tf.Tensor) -> tf.Tensor:
        return decode_image(file, channels, background, sound, depth)

    return tf.function(decode, input_signature=[tf.TensorSpec([], tf.string)], autograph=False)


def _refuse(channels: int) -> tf.Tensor:
    with tf.control_dependencies([tf.debugging.Assert(False, ["not an image that is served"])]):
        return tf.zeros([1, 1, channels], tf.uint8)


def _drop_many_scans(file: tf.Tensor) -> tf.Tensor:
    """The file, or nothing of it, which no decoder reads, if it has too many scans."""
    values = tf.io.decode_raw(file, tf.uint8)
    scans = tf.math.count_nonzero((values[:-1] == 0xFF) & (values[1:] == 0xDA))
    return tf.where(scans > MOST_SCANS, b"", file)


def _decode_jpeg(file: tf.Tensor, channels: int, structure: Structure) -> tf.Tensor:
    """TensorFlow cannot convert CMYK to gray, and converts only Adobe's to RGB as others do.

    A JPEG of very many scans is an error: each may have 16 bytes, and costs a pass over all pixels.
    """
    file = tf.cond(structure.scans == 1, lambda: file, lambda: _drop_many_scans(file))
    is_bare = (structure.components == 4) & (structure.adobe == 0)

    def add_segment() -> tf.Tensor:
        return tf.strings.join([_ADOBE_CMYK, tf.strings.substr(file, 2, -1)])

    file = tf.cond(is_bare, add_segment, lambda: file)
    if channels == 3:
        return views.decode_image(file, 3)
    return tf.cond(
        structure.components == 4,
        lambda: _fit_channels(views.decode_image(file, 3), 1),
        lambda: views.decode_image(file, 1),
    )


def _decode_png(
    file: tf.Tensor, channels: int, structure: Structure, background: Background, depth: Depth
) -> tf.Tensor:
    """Opaque PNGs of up to 8 bits are decoded as stored ones are, others with alpha and depth."""
    bits, color_type = tf.unstack(kinds.read_bytes(file, 24, 2))
    # Checked first: asked for an alpha channel that is not there, of less than 8 bits, TensorFlow
    # makes one that is nearly transparent.
    has_alpha = (color_type >= 4) | (structure.transparency > 0)

    def decode_deep(count: int) -> tf.Tensor:
        words = tf.cast(tf.io.decode_png(file, channels=count, dtype=tf.uint16), tf.int32)
        color = _narrow(words[:, :, :3], depth)
        return tf.concat([color, _narrow(words[:, :, 3:], ALL_LEVELS)], axis=-1)

    def decode_alpha() -> tf.Tensor:
        pixels = tf.cond(
            bits == 16, lambda: decode_deep(4), lambda: tf.io.decode_png(file, channels=4)
        )
        return _flatten(pixels, channels, background)

    return tf.cond(
        has_alpha,
        decode_alpha,
        lambda: tf.cond(
            bits == 16,
            lambda: _fit_channels(decode_deep(3), channels),
            lambda: views.decode_image(file, channels),
        ),
    )


def _narrow(words: tf.Tensor, depth: Depth) -> tf.Tensor:
    """As `images.options.Levels.narrow`: int32 → uint8 of the same shape."""
    low, high = depth
    above, span = tf.clip_by_value(words, low, high) - low, high - low
    return tf.cast((above * 510 + span) // (2 * span), tf.uint8)


def _decode_webp(file: tf.Tensor, channels: int, background: Background) -> tf.Tensor:
    """Stills only: with an animation TensorFlow 2.21 overwrites memory that is not its own."""
    check = tf.debugging.Assert(~kinds.is_animated_webp(file), ["an animated WebP is not served"])
    with tf.control_dependencies([check]):
        # As many channels as the file has, 3 or 4; asking for the other number is an error.
        image = tf.io.decode_image(tf.identity(file), channels=0, expand_animations=False)
    image = tf.ensure_shape(image, [None, None, None])
    opaque = tf.fill(tf.shape(image[..., :1]), tf.constant(255, tf.uint8))
    pixels = tf.concat([image, opaque], axis=-1)[..., :4]
    return _flatten(tf.ensure_shape(pixels, [None, None, 4]), channels, background)


def _flatten(pixels: tf.Tensor, channels: int, background: Background) -> tf.Tensor:
    """Lays uint8 [height, width, 4] on a colour, with the same bits as `images.color.composite`."""
    values = tf.cast(pixels, tf.int32)
    color, opacity = values[..., :3], values[..., 3:]
    behind = tf.constant(background, tf.int32) * (255 - opacity)
    return _fit_channels(tf.cast((color * opacity + behind + 127) // 255, tf.uint8), channels)


def _fit_channels(color: tf.Tensor, channels: int) -> tf.Tensor:
    """RGB, uint8 [height, width, 3], to 3 channels or to gray."""
    if channels == 3:
        return color
    weighted = tf.cast(color, tf.int32) * tf.constant(_LUMA, tf.int32)
    return tf.cast(tf.reduce_sum(weighted, axis=-1, keepdims=True) // 32768, tf.uint8)


def decode_sound(file: tf.Tensor, options: SoundOptions, channels: int) -> tf.Tensor:
    """Draws a WAV file's sound as `images.sound` does, of 16-bit PCM at its rate.

    `tf.audio` reads no other samples and `tf.signal` does not resample; such files are refused, and
    `predict` draws them as ingest does. From there on all arithmetic is float64, on the same
    tables: the pixels are those that ingest stores.

    Args:
      file: string scalar.
      options: which part is drawn, and how.
      channels: 1 or 3, which are equal.

    Returns:
      uint8 [mel_bins, columns, channels].

    Raises:
      tf.errors.InvalidArgumentError: when it runs, if the file is damaged, or its samples are not
        of 16 bits at `options.sample_rate_hz`.
    """
    decoded, rate_hz = tf.audio.decode_wav(file)
    length = tf.shape(decoded)[0]
    is_drawn = (rate_hz == options.sample_rate_hz) & (length > 0)
    with tf.control_dependencies([tf.debugging.Assert(is_drawn, ["not a sound that is served"])]):
        samples = tf.reduce_mean(tf.cast(decoded, tf.float64), axis=1)
    # Cut or followed by silence, at the start or on both sides, as `images.sound.place_part` does.
    kept = tf.minimum(length, options.samples)
    is_centered = int(options.align == "center")
    start = (length - kept) // 2 * is_centered
    before = (options.samples - kept) // 2 * is_centered
    taken = samples[start : start + kept]
    fitted = tf.pad(taken, [[before, options.samples - kept - before]])
    picture = _draw(tf.ensure_shape(fitted, [options.samples]), options)
    return tf.repeat(picture[..., tf.newaxis], channels, axis=-1)


def _draw(samples: tf.Tensor, options: SoundOptions) -> tf.Tensor:
    """As `images.sound.draw_spectrogram`: uint8 [mel_bins, columns]."""
    filters = make_filters(options)
    windows = tf.signal.frame(samples, options.window_samples, options.hop_samples)
    spectrum = tf.signal.rfft(windows * make_window(options), [2 * (len(filters) - 1)])
    power = (tf.math.real(spectrum) ** 2 + tf.math.imag(spectrum) ** 2) @ filters
    floor = tf.constant(10 ** (options.floor_db / 10), tf.float64)
    decibels = 10 / np.log(10) * tf.math.log(tf.maximum(power, floor))
    levels = tf.clip_by_value((1 - decibels / options.floor_db) * 255, 0, 255)
    return tf.transpose(tf.cast(tf.floor(levels + 0.5), tf.uint8))[::-1]


def take_views(
    decode_view: Callable[[tf.Tensor], Any],
    files: tf.Tensor,
    blank: Any,
    explain: Callable[[tf.Tensor], tf.Tensor] = explain_unserved,
) -> tuple[Any, tf.Tensor]:
    """Decodes files, each on its own.

    No operation of TensorFlow's catches an error but tf.data's `ignore_errors`, so the batch goes
    through a data set inside the graph. It travels in a SavedModel, and runs wherever TensorFlow
    does, TensorFlow Serving among them.

    Args:
      decode_view: string scalar → the view, or a tuple of the view and what else is known of it;
        it may fail.
      files: string [batch].
      blank: zeros of the shapes and types that it gives.
      explain: why files failed, string [batch] to string [batch].

    Returns:
      What it gives, for all files, zeros where it failed; and why it did, string [batch]: empty
      where it did not, else as `explain` says.
    """
    count = tf.shape(files, out_type=tf.int64)[0]
    found = (
        tf.data.Dataset.from_tensor_slices(files)
        .enumerate()
        .map(lambda row, file: (row, decode_view(file)), num_parallel_calls=_AT_ONCE)
        .ignore_errors()
    )
    # One more row, which is cut off again: a data set without an element has no batch.
    last = tf.data.Dataset.from_tensors((count, blank))
    rows, views = found.concatenate(last).batch(count + 1).get_single_element()
    rows = rows[:, tf.newaxis]

    def spread(values: tf.Tensor, zeros: tf.Tensor) -> tf.Tensor:
        of_all = tf.scatter_nd(rows, values, tf.stack([count + 1, *zeros.shape]))[:count]
        return tf.ensure_shape(of_all, [None, *zeros.shape])

    is_found = tf.scatter_nd(rows, tf.ones_like(rows[:, 0]), tf.stack([count + 1]))[:count] > 0
    errors = tf.where(is_found, tf.constant(b""), explain(files))
    return tf.nest.map_structure(spread, views, blank), errors
