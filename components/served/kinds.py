"""Kinds of image files by their first bytes, including those that are not served."""

import tensorflow as tf

from image_pipeline.components.images.bad_image import CORRUPT, EMPTY, NOT_AN_IMAGE, UNSUPPORTED

# As many as a DICOM file's takes. No file that is served is shorter than its own.
_SIGNATURE_BYTES = 132
# NumPy, TIFF, big TIFF, Photoshop, JPEG 2000, OpenEXR, JPEG XL.
_NPY = b"\x93NUMPY"
_UNSERVED = (
    *(_NPY, b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"8BPS", b"\xff\x4f\xff\x51", b"v/1\x01"),
    b"\xff\x0a",
)
_UNSERVED_SOUNDS = (b"fLaC", b"ID3", b"OggS")
_UNSERVED_BOXES = (b"jP  ", b"JXL ", b"ftyp")  # at byte 4: JPEG 2000, JPEG XL, AVIF and HEIC


def is_jpeg(files: tf.Tensor) -> tf.Tensor:
    """Whether files (string [...]) begin as JPEGs do: bool [...]."""
    return _starts(files, b"\xff\xd8\xff")


def is_png(files: tf.Tensor) -> tf.Tensor:
    """As `is_jpeg`."""
    return _starts(files, b"\x89PNG")


def is_gif(files: tf.Tensor) -> tf.Tensor:
    """As `is_jpeg`."""
    return _starts(files, b"GIF8")


def is_bmp(files: tf.Tensor) -> tf.Tensor:
    """As `is_jpeg`."""
    return _starts(files, b"BM")


def is_webp(files: tf.Tensor) -> tf.Tensor:
    """As `is_jpeg`."""
    return _starts(files, b"RIFF") & _has(files, 8, b"WEBP")


def is_wav(files: tf.Tensor) -> tf.Tensor:
    """As `is_jpeg`."""
    return _starts(files, b"RIFF") & _has(files, 8, b"WAVE")


def is_npy(files: tf.Tensor) -> tf.Tensor:
    """As `is_jpeg`."""
    return _starts(files, _NPY)


def explain_unserved(files: tf.Tensor, with_sounds: bool = False) -> tf.Tensor:
    """Why each of some files gave no image: string [batch], in ingest's words for bad files.

    Args:
      files: string [batch], all of which failed.
      with_sounds: whether sounds are served, too.
    """
    known = is_jpeg(files) | is_png(files) | is_gif(files) | is_bmp(files) | is_webp(files)
    known |= is_wav(files) & with_sounds
    other = tf.reduce_any(
        [_starts(files, each) for each in _UNSERVED]
        + [_has(files, 4, each) for each in _UNSERVED_BOXES]
        + [_has(files, 128, b"DICM")]
        + [_starts(files, each) & with_sounds for each in _UNSERVED_SOUNDS],
        axis=0,
    )
    reason = tf.where(known, CORRUPT, tf.where(other, UNSUPPORTED, NOT_AN_IMAGE))
    return tf.where(tf.strings.length(files) == 0, EMPTY, reason)


def _starts(files: tf.Tensor, signature: bytes) -> tf.Tensor:
    return _has(files, 0, signature)


def _has(files: tf.Tensor, offset: int, signature: bytes) -> tf.Tensor:
    # Padded with zeros, since a substring that begins past the end is an error.
    start = tf.strings.substr(files, 0, _SIGNATURE_BYTES)
    padded = tf.strings.join([start, b"\0" * _SIGNATURE_BYTES])
    return tf.strings.substr(padded, offset, len(signature)) == signature
