"""What a file is by its first bytes, and the numbers in it, in TensorFlow ops.

Nothing here fails: beyond the end of a file are zeros.
"""

import tensorflow as tf

from image_pipeline.components.images.bad_image import CORRUPT, EMPTY, NOT_AN_IMAGE, UNSUPPORTED
from image_pipeline.components.images.sound import OPEN_SIZE, SoundOptions

BY_PREDICT = "or ask `image-pipeline predict`, which decodes it as ingest does"
NOT_DECODED = (
    f"{UNSUPPORTED}: a served model decodes JPEG, PNG and still WebP files, as training saw them; "
    f"send the image as PNG, {BY_PREDICT}"
)
# As many as a DICOM file's takes. No file that is served is shorter than its own.
_SIGNATURE_BYTES = 132
_NPY = b"\x93NUMPY"
# By where they stand: GIF, BMP, TIFF, big TIFF, Photoshop, JPEG 2000, OpenEXR and JPEG XL; boxes of
# JPEG 2000, JPEG XL, AVIF and HEIC; DICOM.
_OTHERS = {
    0: (
        *(b"GIF8", b"BM", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"8BPS"),
        *(b"\xff\x4f\xff\x51", b"v/1\x01", b"\xff\x0a"),
    ),
    4: (b"jP  ", b"JXL ", b"ftyp"),
    128: (b"DICM",),
}
_OTHER_SOUNDS = (b"fLaC", b"ID3", b"OggS")


def is_jpeg(files: tf.Tensor) -> tf.Tensor:
    """Whether files (string [...]) begin as JPEGs do: bool [...]."""
    return _has(files, 0, b"\xff\xd8\xff")


def is_png(files: tf.Tensor) -> tf.Tensor:
    """As `is_jpeg`."""
    return _has(files, 0, b"\x89PNG")


def is_webp(files: tf.Tensor) -> tf.Tensor:
    """As `is_jpeg`."""
    return _has(files, 0, b"RIFF") & _has(files, 8, b"WEBP")


def is_wav(files: tf.Tensor) -> tf.Tensor:
    """As `is_jpeg`."""
    return _has(files, 0, b"RIFF") & _has(files, 8, b"WAVE")


def is_npy(files: tf.Tensor) -> tf.Tensor:
    """As `is_jpeg`."""
    return _has(files, 0, _NPY)


def is_animated_webp(files: tf.Tensor) -> tf.Tensor:
    """As `is_jpeg`; bit 1 of the extended header's flags says it."""
    flags = tf.io.decode_raw(tf.strings.substr(_pad(files), 20, 1), tf.uint8)
    is_animated = tf.reduce_any(tf.bitwise.bitwise_and(flags, 2) != 0, axis=-1)
    return is_webp(files) & _has(files, 12, b"VP8X") & is_animated


def explain_unserved(files: tf.Tensor, sound: SoundOptions | None = None) -> tf.Tensor:
    """Why each of some files gave no image: string [batch], in ingest's words for bad files.

    Args:
      files: string [batch], all of which failed.
      sound: how sounds are drawn; None if they are not served.
    """
    is_other = tf.reduce_any(
        [_has(files, at, each) for at, signatures in _OTHERS.items() for each in signatures]
        + [is_npy(files), is_animated_webp(files)],
        axis=0,
    )
    is_known = is_jpeg(files) | is_png(files) | is_webp(files)
    reason = tf.where(is_known, CORRUPT, NOT_AN_IMAGE)
    reason = tf.where(is_other, NOT_DECODED, reason)
    if sound is not None:
        is_sound = is_wav(files) | tf.reduce_any([_has(files, 0, e) for e in _OTHER_SOUNDS], axis=0)
        message = (
            f"{UNSUPPORTED}: a served model draws plain WAV files of 16-bit PCM at "
            f"{sound.sample_rate_hz} Hz; convert it (ffmpeg -i FILE -c:a pcm_s16le -ar "
            f"{sound.sample_rate_hz} FILE.wav), {BY_PREDICT}"
        )
        reason = tf.where(is_sound, tf.where(_is_cut_wav(files), CORRUPT, message), reason)
    return tf.where(tf.strings.length(files) == 0, EMPTY, reason)


def _is_cut_wav(files: tf.Tensor) -> tf.Tensor:
    """Whether files are WAVs of fewer bytes than they say, and say how many: bool [batch]."""
    said = tf.strings.substr(_pad(files), 4, 4)
    size = tf.cast(tf.io.decode_raw(said, tf.int32)[:, 0], tf.int64)  # Negative from 2^31 on.
    is_known = (size >= 0) & (size < OPEN_SIZE)
    return is_wav(files) & is_known & (size + 8 > tf.cast(tf.strings.length(files), tf.int64))


def _has(files: tf.Tensor, offset: int, signature: bytes) -> tf.Tensor:
    return tf.strings.substr(_pad(files), offset, len(signature)) == signature


def _pad(files: tf.Tensor) -> tf.Tensor:
    # With zeros, since a substring that begins past the end is an error.
    start = tf.strings.substr(files, 0, _SIGNATURE_BYTES)
    return tf.strings.join([start, b"\0" * _SIGNATURE_BYTES])


def read_bytes(file: tf.Tensor, offset: tf.Tensor | int, count: int) -> tf.Tensor:
    """Some bytes of a file.

    Args:
      file: string scalar.
      offset: int64 scalar; it may lie outside the file.
      count: how many bytes.

    Returns:
      int64 [count], 0 to 255.
    """
    found = tf.strings.substr(file, _clip(file, offset), count)
    filled = tf.strings.substr(tf.strings.join([found, b"\0" * count]), 0, count)
    return tf.reshape(tf.cast(tf.io.decode_raw(filled, tf.uint8), tf.int64), [count])


def read_text(file: tf.Tensor, offset: tf.Tensor | int, count: tf.Tensor | int) -> tf.Tensor:
    """Some bytes of a file as a string scalar, which is shorter where the file ends."""
    return tf.strings.substr(file, _clip(file, offset), tf.maximum(_int64(count), 0))


def join_number(parts: tf.Tensor, is_little: tf.Tensor | bool) -> tf.Tensor:
    """The numbers that bytes stand for.

    Args:
      parts: int64 [..., n], 0 to 255.
      is_little: whether the least byte comes first: bool, or a bool scalar.

    Returns:
      int64 [...], unsigned.
    """
    values = [256**place for place in range(parts.shape[-1])]
    places = tf.where(is_little, tf.constant(values, tf.int64), values[::-1])
    return tf.reduce_sum(parts * places, axis=-1)


def count_bytes(file: tf.Tensor) -> tf.Tensor:
    """The file's size: int64 scalar."""
    return _int64(tf.strings.length(file))


def _clip(file: tf.Tensor, offset: tf.Tensor | int) -> tf.Tensor:
    return tf.clip_by_value(_int64(offset), 0, count_bytes(file))


def _int64(value: tf.Tensor | int) -> tf.Tensor:
    return tf.cast(value, tf.int64)
