"""A WAV file's picture in TensorFlow ops: `images.wav`, `images.sound` and `spectrogram` again.

All arithmetic is float64, on the same tables: the pixels are those that ingest stores.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from image_pipeline.components.images import sound, wav
from image_pipeline.components.images.spectrogram import SoundOptions, make_filters, make_window
from image_pipeline.components.served.read import count_bytes, join_number, read_bytes, read_text

# Of resampled sound; each needs as many factors as the filter is long.
_SAMPLES_AT_ONCE = 2_048


class _Header(NamedTuple):
    """int64 scalars, as in `wav.WavHeader`."""

    rate_hz: tf.Tensor
    channels: tf.Tensor
    tag: tf.Tensor
    sample_bytes: tf.Tensor
    start: tf.Tensor
    frames: tf.Tensor


class _Part(NamedTuple):
    """int64 scalars, as in `sound.Part`; and the ratio by which the sound is resampled."""

    first: tf.Tensor
    last: tf.Tensor
    start: tf.Tensor  # of the picture's samples among all resampled ones
    kept: tf.Tensor
    before: tf.Tensor
    up: tf.Tensor
    down: tf.Tensor


def decode_sound(file: tf.Tensor, options: SoundOptions, channels: int) -> tf.Tensor:
    """Draws a WAV file's sound.

    Args:
      file: string scalar.
      options: which part is drawn, and how.
      channels: 1 or 3, which are equal.

    Returns:
      uint8 [mel_bins, columns, channels].

    Raises:
      tf.errors.InvalidArgumentError: when it runs, if ingest would refuse the file.
    """
    header = _read_header(file)
    part = _place_part(header, options)
    samples = _read_samples(file, header, part)
    is_loud = tf.reduce_all(tf.abs(samples) <= sound.LOUDEST)
    with tf.control_dependencies([tf.debugging.Assert(is_loud, ["samples beyond full scale"])]):
        samples = tf.identity(samples)
    taken = tf.cond(
        part.up == part.down,
        lambda: samples,
        lambda: _resample(samples, part),
    )
    around = [[part.before, options.samples - part.kept - part.before]]
    fitted = tf.ensure_shape(tf.pad(taken, around), [options.samples])
    return tf.repeat(_draw(fitted, options)[..., tf.newaxis], channels, axis=-1)


def _read_header(file: tf.Tensor) -> _Header:
    format_at, start, size = _find_chunks(file)

    def number(offset: int, count: int) -> tf.Tensor:
        return join_number(read_bytes(file, format_at + offset, count), is_little=True)

    tag = number(0, 2)
    tag = tf.where(tag == wav.EXTENSIBLE, number(wav.SUBFORMAT, 2), tag)
    channels, block = number(2, 2), number(12, 2)
    sample_bytes = block // tf.maximum(channels, 1)
    left = count_bytes(file) - start
    size = tf.where(size >= wav.OPEN_SIZE, left, size)
    kinds = [
        (tag == each) & (sample_bytes == n)
        for each in wav.SAMPLE_BYTES
        for n in wav.SAMPLE_BYTES[each]
    ]
    is_good = tf.reduce_any(kinds) & (sample_bytes * channels == block) & (format_at > 0)
    is_good &= (size <= left) & (size >= block)
    rate_hz = number(4, 4)
    is_good &= (rate_hz >= sound.LOWEST_RATE_HZ) & (rate_hz <= sound.HIGHEST_RATE_HZ)
    with tf.control_dependencies([tf.debugging.Assert(is_good, ["no sound that is served"])]):
        # All of them wait: nothing is computed from a wrong header, however much it asks for.
        found = (rate_hz, channels, tag, sample_bytes, start, size // tf.maximum(block, 1))
        return _Header(*map(tf.identity, found))


def _find_chunks(file: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Where the format's chunk and the samples' start, and the size of these; 0 if there are none.

    As `wav._find_chunks` does.
    """
    zero = tf.constant(0, tf.int64)

    def step(position: tf.Tensor, format_at: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, ...]:
        name = read_text(file, position, 4)
        size = join_number(read_bytes(file, position + 4, 4), is_little=True)
        is_data = (name == b"data") & (format_at > 0)
        is_format = (name == b"fmt ") & (format_at == 0) & (size >= wav.FORMAT_BYTES)
        format_at = tf.where(is_format, position + 8, format_at)
        found = tf.where(is_data, position + 8, zero), tf.where(is_data, size, zero)
        return position + 8 + size + size % 2, format_at, *found

    _, format_at, start, size = tf.while_loop(
        lambda position, _, start, __: (position + 8 <= count_bytes(file)) & (start == 0),
        step,
        (tf.constant(wav.FIRST_CHUNK, tf.int64), zero, zero, zero),
        maximum_iterations=wav.MOST_CHUNKS,
    )
    is_found = tf.debugging.Assert(start > 0, ["no samples"])
    with tf.control_dependencies([is_found]):
        return format_at, tf.identity(start), size


def _place_part(header: _Header, options: SoundOptions) -> _Part:
    """As `sound.place_part`."""
    wanted, rate_hz = tf.constant(options.sample_rate_hz, tf.int64), header.rate_hz
    common = _find_common(wanted, rate_hz)
    up, down = wanted // common, rate_hz // common
    length = -(-header.frames * up // down)
    kept = tf.minimum(length, options.samples)
    is_centered = int(options.align == "center")
    start = (length - kept) // 2 * is_centered
    before = (options.samples - kept) // 2 * is_centered
    reach = tf.where(up == down, tf.constant(0, tf.int64), _find_reach(up, down))
    first = tf.maximum(-((reach - start * down) // up), 0)
    last = tf.minimum(header.frames, ((start + kept - 1) * down + reach) // up + 1)
    return _Part(first, last, start, kept, before, up, down)


def _find_reach(up: tf.Tensor, down: tf.Tensor) -> tf.Tensor:
    return sound.FILTER_REACH * tf.maximum(up, down)


def _find_common(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """The greatest common divisor, by Euclid's algorithm."""
    return tf.while_loop(
        lambda _, rest: rest > 0, lambda own, rest: (rest, own % rest), (first, second)
    )[0]


def _read_samples(file: tf.Tensor, header: _Header, part: _Part) -> tf.Tensor:
    """As `wav.read_wav_samples`: float64 [part.last - part.first]."""
    block = header.channels * header.sample_bytes
    raw = read_text(file, header.start + part.first * block, (part.last - part.first) * block)
    readers: dict[tuple[int, int], Callable[[], tf.Tensor]] = {
        (wav.PCM, 1): lambda: (_decode(raw, tf.uint8) - 128) / 128,
        (wav.PCM, 2): lambda: _decode(raw, tf.int16) / 2**15,
        (wav.PCM, 3): lambda: _decode_24(raw) / 2**23,
        (wav.PCM, 4): lambda: _decode(raw, tf.int32) / 2**31,
        (wav.FLOAT, 4): lambda: _decode(raw, tf.float32),
        (wav.FLOAT, 8): lambda: _decode(raw, tf.float64),
    }
    cases = [
        ((header.tag == tag) & (header.sample_bytes == count), read)
        for (tag, count), read in readers.items()
    ]
    values = tf.ensure_shape(tf.case(cases, exclusive=True), [None])
    return tf.reduce_mean(tf.reshape(values, tf.stack([-1, header.channels])), axis=1)


def _decode(raw: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.cast(tf.io.decode_raw(raw, dtype), tf.float64)


def _decode_24(raw: tf.Tensor) -> tf.Tensor:
    parts = tf.cast(tf.reshape(tf.io.decode_raw(raw, tf.uint8), [-1, 3]), tf.int64)
    number = join_number(parts, is_little=True)
    return tf.cast(tf.where(number >= 1 << 23, number - (1 << 24), number), tf.float64)


def _resample(samples: tf.Tensor, part: _Part) -> tf.Tensor:
    """What `scipy.signal.resample_poly` gives: float64 [part.kept]."""
    reach = _find_reach(part.up, part.down)
    taps = _make_filter(reach, tf.maximum(part.up, part.down)) * tf.cast(part.up, tf.float64)
    count = 2 * reach // part.up + 1
    # Zeros around, so that every sample that the filter reaches for is there.
    padded = tf.pad(samples, [[count, count]])

    def take(start: tf.Tensor) -> tf.Tensor:
        places = (part.start + start + tf.range(_SAMPLES_AT_ONCE, dtype=tf.int64)) * part.down
        first = -((reach - places) // part.up)  # the first sample within reach
        sources = first[:, tf.newaxis] + tf.range(count)
        factors = places[:, tf.newaxis] - sources * part.up + reach
        is_reached = (factors >= 0) & (factors <= 2 * reach)
        weights = tf.gather(taps, tf.clip_by_value(factors, 0, 2 * reach))
        at = tf.clip_by_value(sources - part.first + count, 0, tf.size(padded, tf.int64) - 1)
        return tf.reduce_sum(tf.where(is_reached, weights * tf.gather(padded, at), 0), axis=1)

    starts = tf.range(0, part.kept, _SAMPLES_AT_ONCE, dtype=tf.int64)
    blocks = tf.map_fn(
        take,
        starts,
        fn_output_signature=tf.TensorSpec([_SAMPLES_AT_ONCE], tf.float64),
        parallel_iterations=1,
    )
    return tf.reshape(blocks, [-1])[: part.kept]


def _make_filter(reach: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """As `scipy.signal.firwin` with a Kaiser window: float64 [2 * reach + 1]."""
    places = tf.cast(tf.range(-reach, reach + 1), tf.float64)
    angles = np.pi * places / tf.cast(factor, tf.float64)
    sinc = tf.where(
        places == 0, tf.ones_like(places), tf.math.divide_no_nan(tf.sin(angles), angles)
    )
    inside = tf.sqrt(1 - (places / tf.cast(reach, tf.float64)) ** 2)
    taps = sinc * tf.math.bessel_i0(sound.KAISER_BETA * inside)
    return taps / tf.reduce_sum(taps)


def _draw(samples: tf.Tensor, options: SoundOptions) -> tf.Tensor:
    """As `spectrogram.draw_spectrogram`: uint8 [mel_bins, columns]."""
    filters = make_filters(options)
    windows = tf.signal.frame(samples, options.window_samples, options.hop_samples)
    spectrum = tf.signal.rfft(windows * make_window(options), [2 * (len(filters) - 1)])
    power = (tf.math.real(spectrum) ** 2 + tf.math.imag(spectrum) ** 2) @ filters
    floor = tf.constant(10 ** (options.floor_db / 10), tf.float64)
    decibels = 10 / np.log(10) * tf.math.log(tf.maximum(power, floor))
    levels = tf.clip_by_value((1 - decibels / options.floor_db) * 255, 0, 255)
    return tf.transpose(tf.cast(tf.floor(levels + 0.5), tf.uint8))[::-1]
