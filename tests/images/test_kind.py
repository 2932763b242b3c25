import gzip
import io
import re
import tarfile
import zipfile

import numpy as np
import pytest
import soundfile
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from image_pipeline.components.images.bad_image import (
    CORRUPT,
    NOT_AN_IMAGE,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
)
from image_pipeline.components.images.header import Header, open_image, read_header, read_size
from image_pipeline.components.images.kind import HEAD_BYTES, FileKind, tell_kind
from tests.images import zoo

pytestmark = pytest.mark.unit

# As long as a head, and of what a pattern might try again and again.
REPEATED = {
    "comments": b"<!---->",
    "declared comments": b"<?xml version='1.0'?>\n" + b"<!-- a licence -->\n" * 20,
    "marks": b"P3 " + b"# " * 2000,
    "empty lines": b"P3\n" + b"#\n" * 2000,
    "blanks": b" " * 4096,
}


@pytest.mark.timeout(60)  # By trying again, each would take longer than the universe is old.
@pytest.mark.parametrize("name", REPEATED)
def test_no_content_makes_a_pattern_try_for_ever(name):
    data = REPEATED[name]
    head = (data * (HEAD_BYTES // len(data)) + b"<html>")[-HEAD_BYTES:]
    assert tell_kind(head).group in ("text", "unsupported_image")


def save(image_format: str, mode: str = "RGB", size: tuple[int, int] = (32, 48), **settings):
    return zoo.save(Image.new(mode, size, 7), image_format, **settings)


def save_tar(mode: str = "w") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        member = tarfile.TarInfo("a.png")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"abc"))
    return file.getvalue()


def save_zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.png", b"abc")
    return file.getvalue()


def save_tiff(**settings) -> bytes:
    file = io.BytesIO()
    tifffile.imwrite(file, np.zeros((8, 8, 3), np.uint8), photometric="rgb", **settings)
    return file.getvalue()


NOT_READ = {
    "ppm": (save("PPM"), "PPM, PGM or PBM"),
    "pgm": (save("PPM", "L"), "PPM, PGM or PBM"),
    "pbm": (save("PPM", "1"), "PPM, PGM or PBM"),
    "tga": (save("TGA"), "TGA"),
    "tga_gray": (save("TGA", "L"), "TGA"),
    "tga_alpha": (save("TGA", "RGBA"), "TGA"),
    "tga_packed": (save("TGA", compression="tga_rle"), "TGA"),
    "tga_palette": (save("TGA", "P"), "TGA"),
    "ico": (save("ICO"), "Windows icon"),
    "icns": (save("ICNS", "RGBA", (32, 32)), "Macintosh icon"),
    "psd": (zoo.ZOO["photoshop"].data, "Photoshop"),
    "jp2": (save("JPEG2000"), "JPEG 2000"),
    "j2k": (save("JPEG2000", no_jp2=True), "JPEG 2000"),
    "svg": (zoo.ZOO["svg"].data, "SVG"),
    "bigtiff": (save_tiff(bigtiff=True, byteorder=">"), "big-endian BigTIFF"),
    "pcx": (save("PCX"), "PCX"),
    "sgi": (save("SGI"), "SGI"),
    "dds": (save("DDS"), "DDS"),
    "qoi": (save("QOI"), "QOI"),
    "eps": (save("EPS"), "PostScript"),
    "xbm": (save("XBM", "1"), "XBM"),
    "canon": (b"II*\0\x10\0\0\0CR\x02\0", "camera raw"),
}
ARCHIVES = {
    "zip": save_zip(),
    "tar": save_tar(),
    "gzip": gzip.compress(b"abc"),
    "bzip2": save_tar("w:bz2"),
    "xz": save_tar("w:xz"),
    "RAR": b"Rar!\x1a\x07\x01\0",
    "7-Zip": b"7z\xbc\xaf\x27\x1c\0\x04",
}
TEXTS = {
    "ascii": b"a cat, sitting\r\n",
    "utf-8": "zwei Kätzchen, 二匹の猫".encode(),
    "cut_utf-8": ("x" + "猫" * HEAD_BYTES).encode()[:HEAD_BYTES],
    "latin-1": "ein Kätzchen läuft über die Straße".encode("latin-1"),
    "utf-16": "[.ShellClassInfo]\r\nIconIndex=猫".encode("utf-16"),
    "html": zoo.ZOO["html"].data,
    "bmw": b"BMW and others",
    "bm": b"BM 3",
    "p1": b"P1 is the first patient",
    "json": b'{"label": 3}',
}
OTHERS = {
    "PDF": zoo.ZOO["pdf"].data,
    "video": zoo.ZOO["mp4"].data,
    ".DS_Store": b"\0\0\0\x01Bud1\0\0\x10\0",
    "Thumbs.db or an old Office document": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
    "DICOM directory": bytes(128) + b"DICM\2\0\2\0UI\x1a\x001.2.840.10008.1.3.10\0",
    "empty": b"",
    "unknown": bytes(5000),
}


@pytest.mark.parametrize("name", [n for n, f in zoo.ZOO.items() if f.outcome == zoo.WRITTEN])
def test_every_image_that_is_read_is_known_as_what_it_is(name: str):
    assert tell_kind(zoo.ZOO[name].data) == FileKind("image", zoo.ZOO[name].source_format)


@pytest.mark.parametrize("name", NOT_READ)
def test_images_that_are_not_read_are_named_with_a_way_out(name: str):
    data, expected = NOT_READ[name]
    kind = tell_kind(data)
    assert (kind.group, kind.name) == ("unsupported_image", expected)
    assert "FILE" in kind.way_out


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives(name: str):
    kind = tell_kind(ARCHIVES[name])
    assert (kind.group, kind.name) == ("archive", name)
    assert "unpack it" in kind.way_out


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str):
    assert tell_kind(TEXTS[name]) == FileKind("text", "text")


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_nothing_of_the_kind(name: str):
    assert tell_kind(OTHERS[name]) == FileKind("other", name)


@pytest.mark.parametrize(
    "head",
    [
        b"FORM\0\0\1\0AIFFCOMM",
        b".snd\0\0\0\x18",
        b"RF64\xff\xff\xff\xffWAVEds64",
        b"OggS\0\2" + bytes(20) + b"\1\x1e\1vorbis",
        b"OggS\0\2" + bytes(20) + b"\1\x13OpusHead",
    ],
)
def test_other_sounds_are_named_with_a_way_out(head: bytes):
    way_out = "convert it, for example: ffmpeg -i FILE -c:a pcm_s16le FILE.wav"
    assert tell_kind(head) == FileKind("sound", "sound", way_out)


def test_a_damaged_image_is_still_an_image():
    assert tell_kind(zoo.ZOO["jpeg_cut_header"].data).group == "image"
    assert tell_kind(b"\x89PNG" + bytes(50)).group == "image"


def test_only_the_head_is_looked_at():
    text = b"a" * HEAD_BYTES
    assert tell_kind(text + b"\0") == tell_kind(text)


@given(st.binary(max_size=600))
def test_any_bytes_are_of_some_kind(data: bytes):
    kind = tell_kind(data)
    groups = ("image", "unsupported_image", "sound", "archive", "text", "other")
    assert kind.name and kind.group in groups


def test_noise_is_taken_for_no_image_that_is_not_read():
    """The signature of a TGA is the weakest; its header's fields still rule out nearly all."""
    noise = np.random.default_rng(3).integers(0, 256, (20_000, 64), np.uint8)
    groups = [tell_kind(row.tobytes()).group for row in noise]
    assert groups.count("unsupported_image") <= 2


@pytest.mark.parametrize(
    ("kind", "endian"),
    [("WAV", "BIG"), ("RF64", None), ("W64", None), ("AIFF", None), ("AU", None)],
)
def test_sounds_that_are_not_read_say_how_to_convert_them(kind, endian):
    file = io.BytesIO()
    soundfile.write(file, np.zeros(100), 8_000, format=kind, subtype="PCM_16", endian=endian)
    found = tell_kind(file.getvalue())
    assert (found.group, found.name) == ("sound", "sound") and "ffmpeg -i FILE" in found.way_out


def read(name: str) -> Header:
    with open_image(zoo.ZOO[name].data) as image:
        return read_header(image, zoo.ZOO[name].data)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jpeg_gray", ("jpeg", 32, 48, 1, 1, False, ())),
        ("jpeg_orientation_6", ("jpeg", 48, 32, 3, 6, False, ())),
        ("jpeg_exif_garbage", ("jpeg", 32, 48, 3, 1, False, ("exif_broken",))),
        ("png_gray_alpha", ("png", 32, 48, 1, 1, True, ())),
        ("png_animated", ("png", 32, 48, 3, 1, True, ("frames:2",))),
        ("tiff_orientation_6", ("tiff", 48, 32, 3, 6, True, ())),
        ("tiff_jpeg", ("tiff", 32, 48, 3, 1, False, ())),
        ("tiff_gray_16_bit", ("tiff", 32, 48, 1, 1, True, ())),
        ("webp", ("webp", 32, 48, 3, 1, False, ())),
    ],
)
def test_the_header_is_the_file_s(name: str, expected: tuple):
    header = read(name)
    assert header == Header(*expected[:5], None, *expected[5:])


def test_a_colour_profile_is_kept():
    assert read("png_profile").icc is not None
    assert read("png").icc is None


def test_the_size_of_a_bomb_is_read_without_decoding():
    with open_image(zoo.ZOO["png_bomb"].data) as image:
        assert read_size(image) == (50_000, 50_000)


@pytest.mark.parametrize(
    ("data", "reason", "message"),
    [
        (b"a cat, s", NOT_AN_IMAGE, "no image starts with b'a cat, s'"),
        (zoo.ZOO["svg"].data, UNSUPPORTED, "SVG is not read; draw it at the size you need"),
        (zoo.ZOO["png_zero_width"].data, CORRUPT, "the header of this file is damaged"),
        (zoo.ZOO["tiff_cut_lzw"].data, TRUNCATED, "the TIFF ends at byte 2000, before its direc"),
        (b"MM\0*\0\0\0\x08" + bytes(8), UNSUPPORTED, "a TIFF that Pillow cannot open"),
        (zoo.save_jpeg()[:20], TRUNCATED, "the JPEG data ends at byte 20"),
    ],
    ids=["text", "svg", "png", "cut_tiff", "empty_tiff", "jpeg"],
)
def test_what_does_not_open_is_told_apart(data: bytes, reason: str, message: str):
    with pytest.raises(BadImage, match=re.escape(message)) as caught:
        open_image(data)
    assert caught.value.reason == reason
