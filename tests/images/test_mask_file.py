"""Masks' files, written sample by sample, are read as they were written, or refused."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from image_pipeline.components.images.bad_image import (
    NOT_AN_IMAGE,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
)
from image_pipeline.components.images.mask_file import BAD_MASK, MASK_SIZE, list_values, read_levels
from image_pipeline.components.images.prepare import PreparedImage, PrepareOptions, prepare_image
from tests.images.zoo import save_array

pytestmark = pytest.mark.unit

LEVELS = np.array([[0, 1, 2], [3, 255, 0]])
GRAY, RGB, PALETTE, GRAY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6  # a PNG's colour types


def make_image(height=2, width=3, orientation=1):
    """As of a file of these sides, once it is upright."""
    turned = orientation > 4
    source = (width, height) if turned else (height, width)
    return PreparedImage(b"", "png", height, width, 3, "png", *source, orientation, ())


def pack(samples, bits):
    """Rows of samples, each row padded to whole bytes."""
    rows = ["".join(f"{sample:0{bits}b}" for sample in row.ravel()) for row in samples]
    return [int(row + "0" * (-len(row) % 8), 2).to_bytes(-(-len(row) // 8), "big") for row in rows]


def write_png(samples, bits, color_type=GRAY, palette=b"", further=b""):
    """A PNG of these samples, int [height, width(, channels)]."""

    def chunk(name, data):
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    height, width = samples.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, bits, color_type, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in pack(samples, bits)))
    parts = [chunk(b"IHDR", header), chunk(b"PLTE", palette) if palette else b"", further]
    parts += [chunk(b"IDAT", pixels), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def write_tiff(samples, bits):
    """A gray TIFF of these samples, uncompressed."""
    pixels = b"".join(pack(samples, bits))
    height, width = samples.shape
    tags = {256: width, 257: height, 258: bits, 259: 1, 262: 1, 273: 8, 277: 1, 278: height}
    tags[279] = len(pixels)
    entries = [struct.pack(">HHIHH", tag, 3, 1, value, 0) for tag, value in tags.items()]
    directory = struct.pack(">H", len(tags)) + b"".join(entries) + bytes(4)
    return b"MM\0*" + struct.pack(">I", 8 + len(pixels)) + pixels + directory


def save(pixels, file_format="PNG", **settings):
    """The file that Pillow writes."""
    file = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(file, file_format, **settings)
    return file.getvalue()


def in_palette(indices):
    """An image of palette indices, whose colours tell nothing of them."""
    image = Image.fromarray(indices.astype(np.uint8), "P")
    image.putpalette(bytes(number * 37 % 256 for number in range(768)))
    return image


def check_refused(data, reason, message, as_colors=False, image=None):
    with pytest.raises(BadImage, match=message) as caught:
        read_levels(data, image or make_image(), as_colors)
    assert caught.value.reason == reason


@pytest.mark.parametrize("write", [write_png, write_tiff])
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_gray_levels_are_the_samples_of_any_depth(write, bits):
    samples = LEVELS % 2**bits * (257 if bits == 16 else 1)
    found = read_levels(write(samples, bits), make_image(), as_colors=False)
    np.testing.assert_array_equal(found, samples)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_palette_indices_are_what_counts_whatever_their_colours(bits):
    palette = bytes(number * 37 % 256 for number in range(3 * 2**bits))
    found = read_levels(write_png(LEVELS % 2**bits, bits, PALETTE, palette), make_image(), False)
    np.testing.assert_array_equal(found, LEVELS % 2**bits)


@pytest.mark.parametrize("file_format", ["TIFF", "BMP", "GIF"])
def test_palette_indices_of_other_formats(file_format):
    indices = np.array([[0, 1, 2], [3, 4, 0]])
    found = read_levels(save(in_palette(indices), file_format), make_image(), as_colors=False)
    np.testing.assert_array_equal(found, indices)


@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate", "packbits"])
def test_lossless_tiffs(compression):
    data = save(LEVELS.astype(np.uint8), "TIFF", compression=compression)
    np.testing.assert_array_equal(read_levels(data, make_image(), as_colors=False), LEVELS)


@pytest.mark.parametrize(("color_type", "channels"), [(RGB, 3), (GRAY_ALPHA, 2), (RGB_ALPHA, 4)])
def test_gray_in_several_channels_is_gray_if_it_is_opaque(color_type, channels):
    samples = np.repeat(LEVELS[..., None], channels, axis=-1)
    if color_type != RGB:
        samples[..., -1] = 255
    data = write_png(samples, 8, color_type)
    np.testing.assert_array_equal(read_levels(data, make_image(), as_colors=False), LEVELS)
    if color_type != RGB:
        samples[1, 2, -1] = 254
        check_refused(write_png(samples, 8, color_type), BAD_MASK, "has transparent pixels")


def test_colours_are_their_codes():
    colors = np.arange(18).reshape(2, 3, 3) * 14
    codes = colors @ [65536, 256, 1]
    data = write_png(colors, 8, RGB)
    np.testing.assert_array_equal(read_levels(data, make_image(), as_colors=True), codes)
    check_refused(data, BAD_MASK, r"is in colour; name its colours.*'#8080ff'")
    palette = bytes(colors.reshape(-1).tolist())
    indices = np.arange(6).reshape(2, 3)
    found = read_levels(write_png(indices, 4, PALETTE, palette), make_image(), as_colors=True)
    np.testing.assert_array_equal(found, codes)
    gray = read_levels(write_png(LEVELS, 8), make_image(), as_colors=True)
    np.testing.assert_array_equal(gray, LEVELS * 0x010101)


@pytest.mark.parametrize(("color_type", "channels"), [(RGB, 3), (GRAY_ALPHA, 2), (RGB_ALPHA, 4)])
def test_sixteen_bits_of_several_channels_would_lose_the_lower_eight(color_type, channels):
    samples = np.repeat(LEVELS[..., None], channels, axis=-1)
    samples[..., -1] = 65535 if color_type != RGB else samples[..., 0]
    check_refused(write_png(samples, 16, color_type), BAD_MASK, "has 16 bits for each")
    check_refused(write_png(samples, 16, color_type), BAD_MASK, "has 16 bits for each", True)
    check_refused(save(LEVELS.astype(np.float32), "TIFF"), BAD_MASK, "has 32 bits for each")


@pytest.mark.parametrize(
    ("file_format", "settings", "named"),
    [
        ("JPEG", {"quality": 100}, "is JPEG, but"),
        ("WEBP", {"lossless": True}, "is WEBP, but"),
        ("TIFF", {"compression": "jpeg"}, "is TIFF compressed as jpeg, but"),
    ],
)
def test_what_may_blur_or_scale_levels_is_refused(file_format, settings, named):
    data = save(LEVELS.astype(np.uint8), file_format, **settings)
    check_refused(data, BAD_MASK, f"^bad_mask: {named} .*; save masks as PNG$")


@pytest.mark.parametrize("file_format", ["GIF", "TIFF", "PNG"])
def test_one_of_several_frames_is_not_chosen(file_format):
    frames = [Image.fromarray((LEVELS + n).astype(np.uint8)) for n in range(3)]
    data = save(frames[0], file_format, save_all=True, append_images=frames[1:])
    check_refused(data, BAD_MASK, "has 3 frames")


def test_text_and_nothing_are_no_masks():
    check_refused(b"text", NOT_AN_IMAGE, "this is text")
    check_refused(b"", NOT_AN_IMAGE, "no image starts with b''")
    check_refused(save(LEVELS.astype(np.uint8), "PPM"), UNSUPPORTED, "convert it to PNG")
    inverted = save(LEVELS.astype(np.uint8), "TIFF", tiffinfo={262: 0})
    check_refused(inverted, BAD_MASK, "inverted levels")


_XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF '
    'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description '
    'xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="3"/></rdf:RDF></x:xmpmeta>'
)


def test_what_turns_no_image_turns_no_mask():
    text = PngInfo()
    text.add_itxt("XML:com.adobe.xmp", _XMP)
    profile = Image.Exif()
    profile[0x0112] = 3
    raw, content = PngInfo(), profile.tobytes()
    raw.add_text("Raw profile type exif", f"\nexif\n{len(content):8d}\n{content.hex()}")
    pixels = LEVELS.astype(np.uint8)
    for data in (
        save(pixels, "PNG", pnginfo=text),
        save(pixels, "PNG", pnginfo=raw),
        save(pixels, "TIFF", tiffinfo={700: _XMP.encode()}),
        save(pixels, "PNG", exif=b"Exif\0\0garbage"),
    ):
        np.testing.assert_array_equal(read_levels(data, make_image(), False), LEVELS)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_tiff_is_turned_once(orientation):
    """Its pixels are stored so that turning them gives the levels."""
    turns = Image.Transpose
    back = {
        **{2: turns.FLIP_LEFT_RIGHT, 3: turns.ROTATE_180, 4: turns.FLIP_TOP_BOTTOM},
        **{5: turns.TRANSPOSE, 6: turns.ROTATE_90, 7: turns.TRANSVERSE, 8: turns.ROTATE_270},
    }.get(orientation)
    upright = Image.fromarray(LEVELS.astype(np.uint8))
    stored = upright if back is None else upright.transpose(back)
    data = save(stored, "TIFF", tiffinfo={274: orientation})
    np.testing.assert_array_equal(read_levels(data, make_image(), False), LEVELS)


def test_what_masks_show_is_told_without_their_images():
    bits = write_png(np.array([[0, 3], [1, 2]]), 2, 0)
    assert list_values(bits) == [0, 1, 2, 3]
    assert list_values(save(in_palette(LEVELS))) == np.unique(LEVELS).tolist()
    assert list_values(save(np.array([[[128, 64, 128]]], np.uint8))) == ["#804080"]
    with pytest.raises(BadImage, match="is JPEG"):
        list_values(save(LEVELS.astype(np.uint8), "JPEG"))


def test_a_mask_that_is_cut_off_is_refused():
    data = save(np.random.default_rng(0).integers(0, 255, (40, 50), np.uint8))
    check_refused(data[:900], TRUNCATED, "truncated", image=make_image(40, 50))


@pytest.mark.whole
@pytest.mark.parametrize("file_format", ["PNG", "GIF", "TIFF", "BMP"])
@pytest.mark.parametrize("frames", [1, 2])
def test_damage_anywhere_is_the_mask_s_fault_and_of_a_png_never_unseen(file_format, frames):
    pages = [Image.fromarray((LEVELS * (n + 1) % 256).astype(np.uint8)) for n in range(frames)]
    several = {"save_all": True, "append_images": pages[1:]} if frames > 1 else {}
    if frames > 1 and file_format == "BMP":
        return
    data = save(pages[0], file_format, **several)
    damaged = [data[:length] for length in range(len(data))]
    for place in range(len(data)):
        for bit in (0, 3, 7):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            damaged.append(bytes(changed))
    refused = 0
    for each in damaged:
        try:
            found = read_levels(each, make_image(), as_colors=False)
        except BadImage:
            refused += 1
        else:
            if file_format == "PNG" and frames == 1:
                np.testing.assert_array_equal(found, LEVELS)
    assert refused > len(data)


def test_another_size_than_its_image_s_is_refused():
    data = write_png(LEVELS, 8)
    check_refused(data, MASK_SIZE, "has 3x2 px, but its image has 2x3$", image=make_image(3, 2))
    check_refused(data, MASK_SIZE, "has 3x2 px, but its image has 4x2$", image=make_image(2, 4))


def test_a_bomb_is_refused_by_its_size_before_it_is_decoded():
    data = write_png(np.zeros((1, 1), int), 8)
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, GRAY, 0, 0, 0)
    crc = struct.pack(">I", zlib.crc32(b"IHDR" + header))
    bomb = data[:16] + header + crc + data[33:]
    with pytest.raises(BadImage):
        read_levels(bomb, make_image(1, 1), as_colors=False)


def _oriented(pixels, orientation, file_format="PNG"):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return save(pixels.astype(np.uint8), file_format, exif=exif)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_masks_are_upright_as_their_images_are_and_may_turn_by_themselves(orientation):
    """A photo with an orientation; its mask drawn upright, or with the same orientation."""
    picture = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
    image = prepare_image(
        _oriented(picture, orientation), PrepareOptions(encoding="raw", color="gray")
    )
    upright = np.frombuffer(image.encoded, np.uint8).reshape(image.height, image.width)
    assert (image.orientation, orientation > 4) == (orientation, upright.shape == (3, 2))
    for mask in (save(upright), _oriented(picture, orientation)):
        np.testing.assert_array_equal(read_levels(mask, image, as_colors=False), upright)
    if orientation > 4:
        turned = (
            f"^mask_size: has 3x2 px, but its image, turned by its EXIF orientation {orientation}"
        )
        check_refused(save(picture), MASK_SIZE, f"{turned}, has 2x3$", image=image)


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "PNG"])
def test_a_mask_of_one_bit_has_levels_0_and_1(kind):
    bits = np.array([[0, 1, 1], [1, 0, 1]], bool)
    found = read_levels(save(bits, kind), make_image(2, 3), as_colors=False)
    np.testing.assert_array_equal(found, [[0, 1, 1], [1, 0, 1]])


@pytest.mark.parametrize("dtype", ["u1", "<u2", ">i4", "i8"])
def test_an_array_is_read_as_it_is(dtype):
    for array in (LEVELS.astype(dtype), LEVELS.astype(dtype)[..., None]):
        read = read_levels(save_array(array), make_image(), False)
        assert read.tolist() == LEVELS.tolist()
    if dtype != "u1":
        deep = LEVELS.astype(dtype) * 257
        assert (
            read_levels(save_array(deep), make_image(), False).tolist() == (LEVELS * 257).tolist()
        )


def test_an_array_of_colours_is_read():
    colors = np.arange(18, dtype=np.int64).reshape(2, 3, 3)
    expected = (colors << np.array([16, 8, 0])).sum(axis=2)
    assert read_levels(save_array(colors), make_image(), True).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (LEVELS / 2, r"array of float64, of shape \(2, 3\), but a mask has whole numbers"),
        (np.zeros((2, 3, 4), np.uint8), r"of shape \(2, 3, 4\)"),
        (LEVELS - 1, "an array of -1 to 254, but its numbers must be 0 to 65535"),
        (np.full((2, 3, 3), 256), "must be 0 to 255"),
        (LEVELS.T, "has 2x3 px, but its image has 3x2"),
    ],
)
def test_an_array_that_is_no_mask_is_refused(array, message):
    with pytest.raises(BadImage, match=message):
        read_levels(save_array(array), make_image(), False)
