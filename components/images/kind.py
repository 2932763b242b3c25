"""What a file is, by its first bytes: an image, an unsupported kind of image, or neither."""

import codecs
import re
from typing import Literal, NamedTuple

# `tell_kind` looks at no more than this: an SVG may start with a long comment, and so may a text.
HEAD_BYTES = 4096

Group = Literal["image", "unsupported_image", "sound", "archive", "text", "other"]


class FileKind(NamedTuple):
    """What a file is, by its content; its name plays no part."""

    group: Group
    name: str
    """Of the format in plain words: `jpeg`, `Photoshop`, `zip`, `text`, `PDF`, `unknown` …"""
    way_out: str = ""
    """For an image that is not read, a sound and an archive: what its owner can do."""


_MAGICK = "convert it to PNG, for example with ImageMagick: magick FILE FILE.png"
_FIRST_LAYER = "convert it to PNG, for example with ImageMagick: magick 'FILE[0]' FILE.png"
_RAW = "develop it to JPEG or 16-bit TIFF, for example: darktable-cli FILE FILE.jpg"
_SVG = "draw it at the size you need, for example: rsvg-convert -w 1024 FILE -o FILE.png"
_BIG_TIFF = "write it as an ordinary TIFF, for example with libtiff: tiffcp FILE FILE.tif"

# Signatures, the first that matches counts. Written out, since no library fits: `file` and libmagic
# are programs to install, and Pillow's own `accept` functions cannot tell a damaged file from one
# of another kind, know none of the archives, and take two bytes for a PCX or an MSP.
_IMAGES = (
    # Before it may stand what makes it a TIFF as well. Not a DICOMDIR, which lists other files, as
    # its class says.
    ("dicom", rb".{128}DICM(?!.{0,200}1\.2\.840\.10008\.1\.3\.10\0)"),
    ("jpeg", rb"\xff\xd8\xff"),
    ("png", rb"\x89PNG"),
    ("webp", rb"RIFF....WEBP"),
    # A camera's raw file is a TIFF of a thumbnail to whoever does not know it.
    ("tiff", rb"II\*\0(?!....CR\x02)|MM\0\*|II\+\0"),
    ("gif", rb"GIF8"),
    # Its third to sixth bytes are the file's length: as letters they would mean half a gigabyte.
    ("bmp", rb"BM(?![ -~\s]{1,4}\Z|[ -~\s]{4})"),
    # Some call themselves a general HEIF file, and AVIF among what they are compatible with.
    ("avif", rb"....ftyp(?:avi[fs]|m[is]f1....(?:....){0,15}?avi[fs])"),
    ("npy", rb"\x93NUMPY"),
    ("heic", rb"....ftyp(?:hei|hev|mif|msf)"),
    ("jxl", rb"\0\0\0\x0cJXL |\xff\x0a"),
)
_UNSUPPORTED = (
    ("Photoshop", rb"8BPS", _FIRST_LAYER),
    ("JPEG 2000", rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51", _MAGICK),
    ("JPEG XR", rb"II\xbc", _MAGICK),
    ("big-endian BigTIFF", rb"MM\0\+", _BIG_TIFF),
    ("OpenEXR", rb"v/1\x01", _MAGICK),
    ("Radiance", rb"#\?R(?:ADIANCE|GBE)\n", _MAGICK),
    ("PPM, PGM or PBM", rb"P[1-6]\s++(?:#[^\n]*+\n\s*+)*+\d+\s", _MAGICK),
    ("PAM", rb"P7\nWIDTH", _MAGICK),
    ("PFM", rb"P[Ff]\s+\d", _MAGICK),
    ("Windows icon", rb"\0\0[\x01\x02]\0[^\0]\0..\0", _FIRST_LAYER),
    ("Macintosh icon", rb"icns", _FIRST_LAYER),
    ("GIMP", rb"gimp xcf", _MAGICK),
    ("DDS", rb"DDS \x7c\0\0\0", _MAGICK),
    ("QOI", rb"qoif", _MAGICK),
    ("BPG", rb"BPG\xfb", "convert it, for example: bpgdec -o FILE.png FILE"),
    ("PCX", rb"\x0a[\0\x02\x03\x05]\x01[\x01\x02\x04\x08]", _MAGICK),
    ("SGI", rb"\x01\xda[\0\x01][\x01\x02]\0[\x01-\x03]", _MAGICK),
    ("Sun raster", rb"\x59\xa6\x6a\x95", _MAGICK),
    ("MNG or JNG", rb"[\x8a\x8b][MJ]NG", _FIRST_LAYER),
    ("FITS", rb"SIMPLE  =", _MAGICK),
    ("DjVu", rb"AT&TFORM....DJV", "convert it, for example: ddjvu -format=tiff FILE FILE.tif"),
    ("Windows metafile", rb"\xd7\xcd\xc6\x9a\0\0|\x01\0\0\0.{36} EMF", _MAGICK),
    ("PostScript", rb"%!PS|\xc5\xd0\xd3\xc6", _MAGICK),
    ("camera raw", rb"II\*\0....CR\x02|....ftypcrx |FUJIFILMCCD-RAW|II(?:RO|RS|U\0)|FOVb", _RAW),
    ("XPM", rb"/\* XPM \*/", _MAGICK),
    ("XBM", rb"\s*#define\s+\S+_width\s+\d", _MAGICK),
    (
        "SVG",
        # Possessive: there is nothing to backtrack to between comments.
        rb"(?:\xef\xbb\xbf)?\s*+(?:<\?xml[^>]*>\s*+)?+(?:<!--(?:(?!-->).)*+-->\s*+)*+"
        rb"(?:<!DOCTYPE svg[^>]*>\s*+)?+(?:<!--(?:(?!-->).)*+-->\s*+)*+<svg\b",
        _SVG,
    ),
    # No signature, only a header whose every field has few values: no or one colour map, a known
    # kind, the map's entry size, a size in pixels that is not zero, bits a pixel, and 0 to 8 of
    # alpha. The last line of the newer version of the format is not among a file's first bytes.
    (
        "TGA",
        rb".(?:\0[\x02\x03\x0a\x0b]\0\0\0\0[\0\x0f\x10\x18\x20]"
        rb"|\x01[\x01\x09]....[\x0f\x10\x18\x20])"
        rb"....(?!\0\0).[\0-\x7f](?!\0\0).[\0-\x7f][\x08\x0f\x10\x18\x20][\0-\x0f\x20-\x2f]",
        _MAGICK,
    ),
)
_ARCHIVES = (
    ("zip", rb"PK(?:\x03\x04|\x05\x06|\x07\x08)"),
    ("gzip", rb"\x1f\x8b\x08"),
    ("bzip2", rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
    ("xz", rb"\xfd7zXZ\0"),
    ("Zstandard", rb"[\x22-\x28]\xb5\x2f\xfd"),
    ("LZ4", rb"\x04\x22\x4d\x18"),
    ("lzip", rb"LZIP\x01"),
    ("compress", rb"\x1f[\x9d\xa0]"),
    ("7-Zip", rb"7z\xbc\xaf\x27\x1c"),
    ("RAR", rb"Rar!\x1a\x07"),
    ("tar", rb".{257}ustar"),
    ("cabinet", rb"MSCF\0\0\0\0"),
    ("ar", rb"!<arch>\n"),
)
_SOUND_WAY_OUT = "ingest.prepare.sound makes pictures of WAV and FLAC files"
_AS_WAV = "convert it, for example: ffmpeg -i FILE -c:a pcm_s16le FILE.wav"
_SOUNDS = (
    ("wav", rb"RIFF....WAVE", _SOUND_WAY_OUT),
    ("flac", rb"fLaC", _SOUND_WAY_OUT),
    ("sound", rb"ID3[\x02-\x04]|\xff[\xe3\xf2\xf3\xfb]|FORM....AIF[CF]|\.snd\0\0", _AS_WAV),
    # Big-endian, and of more than 4 GB.
    ("sound", rb"(?:RIFX|RF64)....WAVE|riff\x2e\x91\xcf\x11", _AS_WAV),
    ("sound", rb"caff\0\x01|OggS.{24}(?:\x01vorbis|OpusHead)", _AS_WAV),
)
_OTHER = (
    ("PDF", rb"%PDF-"),
    ("DICOM directory", rb".{128}DICM"),
    ("video", rb"....ftyp|\x1a\x45\xdf\xa3|RIFF....AVI |\0\0\x01[\xb3\xba]|FLV\x01|OggS"),
    ("Thumbs.db or an old Office document", rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
    (".DS_Store", rb"\0\0\0\x01Bud1"),
    ("AppleDouble", rb"\0\x05\x16[\0\x07]"),
    ("Windows shortcut", rb"L\0\0\0\x01\x14\x02\0"),
    ("HDF5", rb"\x89HDF\r\n\x1a\n"),
    ("SQLite", rb"SQLite format 3\0"),
    ("Parquet", rb"PAR1"),
    ("Arrow", rb"ARROW1"),
    ("program", rb"\x7fELF|MZ[\x90\0]|[\xca\xcf]\xfa\xed\xfe|\xca\xfe\xba\xbe"),
)
_ARCHIVE_WAY_OUT = "unpack it, and name the folder that then holds the images"
_SIGNATURES: tuple[tuple[re.Pattern[bytes], FileKind], ...] = tuple(
    (re.compile(pattern, re.DOTALL), kind)
    for pattern, kind in (
        *((pattern, FileKind("image", name)) for name, pattern in _IMAGES),
        *((p, FileKind("archive", name, _ARCHIVE_WAY_OUT)) for name, p in _ARCHIVES),
        *((p, FileKind("unsupported_image", name, way)) for name, p, way in _UNSUPPORTED),
        *((pattern, FileKind("sound", name, way)) for name, pattern, way in _SOUNDS),
        *((pattern, FileKind("other", name)) for name, pattern in _OTHER),
    )
)
# What no text contains: control characters except tab, line feed, form feed, return, escape.
_NOT_IN_TEXT = re.compile(rb"[\0-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_TEXT_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def tell_kind(head: bytes) -> FileKind:
    """Tells what a file is from its first bytes.

    A damaged image is still an image by this: only its first few bytes count. A file without a
    known signature is `text` if it reads as such, else `other`.

    Args:
      head: the first `HEAD_BYTES` of the file, or all of it; more are ignored.

    Returns:
      The kind, which is `other` and named `empty` for a file without bytes.
    """
    head = head[:HEAD_BYTES]
    if not head:
        return FileKind("other", "empty")
    for pattern, kind in _SIGNATURES:
        if pattern.match(head):
            return kind
    return FileKind("text", "text") if _is_text(head) else FileKind("other", "unknown")


def _is_text(head: bytes) -> bool:
    """Tells whether the bytes read as UTF-8, as UTF-16 with its mark, or as mostly ASCII."""
    for mark, encoding in _TEXT_MARKS:
        if head.startswith(mark):
            return _decodes(head[len(mark) :], encoding)
    if _NOT_IN_TEXT.search(head):
        return False
    # The older 8-bit encodings: letters with accents are rare among the others.
    is_mostly_ascii = sum(byte < 0x80 for byte in head) >= 0.75 * len(head)
    return _decodes(head, "utf-8") or is_mostly_ascii


def _decodes(data: bytes, encoding: str) -> bool:
    """Tells whether the bytes are in an encoding; the last character may be cut off."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return False
    return True
