"""A WAV file's picture in TensorFlow ops: what `images.sound` draws, of 16-bit PCM at its rate.

`tf.audio` reads no other samples and `tf.signal` does not resample; such files are refused, and
`predict` draws them as ingest does. From there on all arithmetic is float64, on the same tables:
the pixels are those that ingest stores.
"""

import numpy as np
import tensorflow as tf

from image_pipeline.components.images.sound import SoundOptions, make_filters, make_window


def decode_sound(file: tf.Tensor, options: SoundOptions, channels: int) -> tf.Tensor:
    """Draws a WAV file's sound.

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
    with tf.control_dependencies([tf.debugging.Assert(is_drawn, ["no sound that is served"])]):
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
