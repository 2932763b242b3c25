"""A zoo of image files, drawn from code: ordinary, rare, damaged and hostile ones.

Most of them show `PATTERN`, four flat quadrants whose edges lie on 8-pixel borders, so that even a
JPEG has nearly exact colours and every flip, rotation or channel swap shows.
"""

import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
import tifffile
from imagecodecs import jpegxl_encode_jpeg
from PIL import Image, ImageCms, PngImagePlugin, features
from pydicom.encaps import encapsulate
from pydicom.uid import JPEGBaseline8Bit

from tests.images.extra_files import make_table, save_dicom, save_heic, save_jxl

WRITTEN = "written"
_COLORS = ((200, 40, 30), (30, 180, 60), (20, 60, 210), (230, 220, 90))


def _quadrants(colors: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """Returns uint8 [32, 48, channels]."""
    first, second, third, fourth = (np.full((16, 24, len(c)), c, np.uint8) for c in colors)
    return np.vstack([np.hstack([first, second]), np.hstack([third, fourth])])


PATTERN = _quadrants(_COLORS)
GRAY = _quadrants(((20,), (90,), (160,), (250,)))[:, :, 0]
GRAY_RGB = np.repeat(GRAY[:, :, None], 3, axis=2)
NOISE = np.random.default_rng(7).integers(0, 256, (64, 96, 3), np.uint8)


@dataclass(frozen=True)
class ZooFile:
    """A file and what `prepare_image` makes of it (no resizing, `raw`, RGB)."""

    data: bytes
    outcome: str = WRITTEN
    pixels: np.ndarray | None = None
    tolerance: int = 0
    source_format: str = "jpeg"
    notes: tuple[str, ...] = ()
    orientation: int = 1


def save(pixels: np.ndarray | Image.Image, image_format: str, **settings: object) -> bytes:
    """Encodes uint8 gray, RGB or RGBA pixels with Pillow."""
    image = Image.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels
    buffer = io.BytesIO()
    image.save(buffer, image_format, **settings)
    return buffer.getvalue()


def save_jpeg(pixels: np.ndarray | Image.Image = PATTERN, **settings: object) -> bytes:
    return save(pixels, "JPEG", **{"quality": 95, "subsampling": 0, **settings})


def save_array(array: np.ndarray, version: tuple[int, int] | None = (1, 0)) -> bytes:
    """Encodes an array as an `.npy` file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def segment(marker: int, payload: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def insert_segment(jpeg: bytes, marker: int, payload: bytes) -> bytes:
    return jpeg[:2] + segment(marker, payload) + jpeg[2:]


def make_exif(orientation: int | None = None, gps: bool = False) -> bytes:
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    if gps:
        exif.get_ifd(0x8825).update({1: "N", 2: (48.0, 8.0, 0.0), 3: "E", 4: (11.0, 34.0, 0.0)})
    return exif.tobytes()


def make_xmp(orientation: int) -> bytes:
    """XMP that says how to turn the image, as Lightroom writes it."""
    name = f'xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="{orientation}"'
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description {name}/></x:xmpmeta>'.encode()


def make_raw_profile(exif: bytes) -> str:
    """EXIF as ImageMagick writes it into a PNG's text."""
    digits = exif.hex()
    lines = [digits[at : at + 72] for at in range(0, len(digits), 72)]
    return f"\nexif\n{len(exif):8d}\n" + "\n".join(lines) + "\n"


def store_rotated(orientation: int) -> np.ndarray:
    """Returns pixels that `orientation` turns into `PATTERN`."""
    inverse: dict[int, Callable[[np.ndarray], np.ndarray]] = {
        1: lambda a: a,
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a, 1),
        7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
        8: lambda a: np.rot90(a, -1),
    }
    return np.ascontiguousarray(inverse[orientation](PATTERN))


def swapped_profile() -> bytes:
    """An ICC profile that is sRGB with red and blue exchanged, under another name."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    profile = profile.replace("sRGB".encode("utf-16-be"), "sBGR".encode("utf-16-be"))
    return (
        profile.replace(b"rXYZ", b"tmp!", 1).replace(b"bXYZ", b"rXYZ", 1).replace(b"tmp!", b"bXYZ")
    )


# --- PNGs that Pillow cannot write ------------------------------------------------------------


def chunk(name: bytes, payload: bytes) -> bytes:
    checksum = zlib.crc32(name + payload)
    return struct.pack(">I", len(payload)) + name + payload + struct.pack(">I", checksum)


def make_png(
    size: tuple[int, int],
    depth: int,
    color_type: int,
    filtered_rows: bytes,
    extra: bytes = b"",
    interlace: int = 0,
) -> bytes:
    """Writes the chunks by hand; size is (width, height), each row starts with its filter byte."""
    header = struct.pack(">IIBBBBB", *size, depth, color_type, 0, 0, interlace)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + extra
        + chunk(b"IDAT", zlib.compress(filtered_rows))
        + chunk(b"IEND", b"")
    )


def make_interlaced_png(pixels: np.ndarray) -> bytes:
    """Adam7: seven passes, each a sparser grid of the image (PNG specification, 8.2)."""
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4)]
    passes += [(2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = b""
    for y, x, step_y, step_x in passes:
        rows += b"".join(b"\0" + row.tobytes() for row in pixels[y::step_y, x::step_x])
    return make_png((pixels.shape[1], pixels.shape[0]), 8, 2, rows, interlace=1)


def _animate_apart() -> bytes:
    """An animation whose default image is none of its frames."""
    frames = [Image.fromarray(255 - PATTERN), Image.fromarray(PATTERN // 2)]
    return save(PATTERN, "PNG", save_all=True, default_image=True, append_images=frames, duration=9)


def _save_text(key: str, text: str) -> bytes:
    info = PngImagePlugin.PngInfo()
    info.add_itxt(key, text) if key.startswith("XML") else info.add_text(key, text, zip=True)
    return save(PATTERN, "PNG", pnginfo=info)


def _put_before_end(png: bytes, late: bytes) -> bytes:
    return png[:-12] + late + png[-12:]


def _png_files() -> dict[str, ZooFile]:
    png = save(PATTERN, "PNG")
    alpha = np.dstack([PATTERN, np.full(PATTERN.shape[:2], 255, np.uint8)])
    alpha[:16, :24, 3], alpha[:16, 24:, 3] = 0, 51
    blended = PATTERN.copy()
    blended[:16, :24] = 255
    blended[:16, 24:] = (210, 240, 216)  # 0.2 * (30, 180, 60) + 0.8 * 255
    deep = PATTERN.astype(np.uint16) * 257
    palette = Image.fromarray(PATTERN).quantize(4)
    clear = bytearray(b"\xff" * 4)
    clear[np.asarray(palette)[0, 0]] = 0
    half_clear = PATTERN.copy()
    half_clear[:16, :24] = 255
    gray_alpha = np.dstack([GRAY, np.where(GRAY == 90, 0, 255).astype(np.uint8)])
    gray_blended = GRAY_RGB.copy()
    gray_blended[GRAY == 90] = 255
    two = np.array([[[0] * 3, [255] * 3]], np.uint8)
    idat = png.index(b"IDAT")
    bad_crc = bytearray(png)
    bad_crc[-13] ^= 1  # the last byte of IDAT's checksum, before the 12 bytes of IEND

    def ok(data: bytes, pixels: np.ndarray, *notes: str) -> ZooFile:
        return ZooFile(data, pixels=pixels, source_format="png", notes=notes)

    rows_16 = b"\0" + struct.pack(">4H", 0, 128, 129, 65535)
    levels = np.repeat(np.array([[0, 0, 1, 255]], np.uint8)[:, :, None], 3, axis=2)
    trns_4 = np.array([[[17] * 3, [255] * 3]], np.uint8)
    exif = save(store_rotated(6), "PNG", exif=make_exif(6))
    animated = save(
        PATTERN, "PNG", save_all=True, append_images=[Image.fromarray(255 - PATTERN)], duration=9
    )
    rgb_profile = save(PATTERN[:, :, ::-1].copy(), "PNG", icc_profile=swapped_profile())
    return {
        "png": ok(png, PATTERN),
        "png_gray": ok(save(GRAY, "PNG"), GRAY_RGB),
        "png_1_bit": ok(save(Image.fromarray(two[:, :, 0]).convert("1"), "PNG"), two),
        "png_2_bit": ok(make_png((2, 1), 2, 0, b"\0\x30"), two),
        "png_4_bit": ok(make_png((2, 1), 4, 0, b"\0\x1f"), trns_4),
        "png_4_bit_clear_level": ok(
            make_png((2, 1), 4, 0, b"\0\x12", chunk(b"tRNS", b"\0\2")), trns_4, "alpha"
        ),
        "png_gray_16_bit": ok(make_png((4, 1), 16, 0, rows_16), levels, "16bit"),
        "png_rgb_16_bit": ok(cv2.imencode(".png", deep[:, :, ::-1])[1].tobytes(), PATTERN, "16bit"),
        "png_alpha": ok(save(alpha, "PNG"), blended, "alpha"),
        "png_gray_alpha": ok(save(gray_alpha, "PNG"), gray_blended, "alpha"),
        "png_palette": ok(save(palette, "PNG"), PATTERN),
        "png_palette_clear": ok(
            save(palette, "PNG", transparency=bytes(clear)), half_clear, "alpha"
        ),
        "png_interlaced": ok(make_interlaced_png(NOISE), NOISE),
        "png_animated": ok(animated, PATTERN, "frames:2"),
        "png_animated_apart": ok(_animate_apart(), PATTERN, "frames:3"),
        "png_xmp_orientation": ok(
            _save_text("XML:com.adobe.xmp", make_xmp(6).decode()), PATTERN, "xmp_orientation:6"
        ),
        "png_raw_profile": ok(
            _save_text("Raw profile type exif", make_raw_profile(make_exif(8))),
            PATTERN,
            "raw_exif_orientation:8",
        ),
        "png_late_orientation_6": ZooFile(
            _put_before_end(save(store_rotated(6), "PNG"), chunk(b"eXIf", make_exif(6)[6:])),
            pixels=PATTERN,
            source_format="png",
            orientation=6,
        ),
        "png_orientation_6": ZooFile(exif, pixels=PATTERN, source_format="png", orientation=6),
        "png_profile": ZooFile(rgb_profile, WRITTEN, PATTERN, 2, "png", ("icc",)),
        "png_trailing_garbage": ok(png + b"garbage", PATTERN),
        "png_truncated": ZooFile(png[: idat + 20], "truncated"),
        "png_no_end": ZooFile(png[:-12], "truncated"),
        "png_cut_header": ZooFile(png[:20], "truncated"),
        "png_bad_checksum": ZooFile(bytes(bad_crc), "corrupt"),
        "png_too_few_rows": ZooFile(make_png((2, 3), 8, 0, b"\0\1\2"), "corrupt"),
        "png_bomb": ZooFile(make_png((50_000, 50_000), 8, 0, b"\0"), "too_many_pixels"),
        "png_zero_width": ZooFile(make_png((0, 5), 8, 0, b"\0"), "corrupt"),
        "png_1x1": ok(save(PATTERN[:1, :1].copy(), "PNG"), PATTERN[:1, :1]),
        "png_1x5000": ok(
            save(np.full((5000, 1, 3), 9, np.uint8), "PNG"), np.full((5000, 1, 3), 9, np.uint8)
        ),
    }


# --- JPEG ---------------------------------------------------------------------------------------


def _strip_adobe(jpeg: bytes) -> bytes:
    start = jpeg.index(b"\xff\xee")
    return jpeg[:start] + jpeg[start + 2 + int.from_bytes(jpeg[start + 2 : start + 4], "big") :]


def _cmyk() -> Image.Image:
    ink = np.dstack([255 - PATTERN, np.zeros(PATTERN.shape[:2], np.uint8)])
    return Image.fromarray(ink, mode="CMYK")


def _ycck_jpeg() -> bytes:
    """A CMYK JPEG whose first three channels hold YCbCr, which its Adobe marker says."""
    stored = np.asarray(Image.fromarray(255 - PATTERN).convert("YCbCr"))
    planes = np.dstack([255 - stored, np.zeros(PATTERN.shape[:2], np.uint8)])
    jpeg = bytearray(save_jpeg(Image.fromarray(planes, mode="CMYK")))
    jpeg[jpeg.index(b"Adobe") + 11] = 2  # the marker's colour transform: YCCK
    return bytes(jpeg)


def _rarely_sampled_jpeg() -> bytes:
    """Mid-gray 24x8 pixels; three luma samples to one of either chroma, as no encoder does."""
    jpeg = save_jpeg(np.full((8, 24, 3), 128, np.uint8))
    frame, scan = jpeg.index(b"\xff\xc0"), jpeg.index(b"\xff\xda")
    header = bytearray(jpeg[: scan + 14])
    header[frame + 11] = 0x31  # of the first component: 3 horizontally, 1 vertically
    for component in range(3):
        header[scan + 6 + 2 * component] = 0x00  # all with the first component's tables
    # Five blocks, each "no difference" (00) and "nothing else" (1010), filled up with ones.
    blocks = int("001010" * 5 + "11", 2).to_bytes(4, "big")
    return bytes(header) + blocks + b"\xff\xd9"


def _odd_but_whole(jpeg: bytes) -> dict[str, bytes]:
    """What some programs write, and libjpeg remarks on."""
    scan = jpeg.index(b"\xff\xda")
    end = scan + 2 + int.from_bytes(jpeg[scan + 2 : scan + 4], "big")
    spectral_end = jpeg[: end - 2] + b"\0" + jpeg[end - 1 :]
    version = bytearray(jpeg)
    version[jpeg.index(b"JFIF\0") + 5] = 2
    tables = jpeg.index(b"\xff\xdb")
    return {
        "jpeg_no_spectral_end": spectral_end,
        "jpeg_jfif_2": bytes(version),
        "jpeg_stray_bytes": jpeg[:tables] + b"\0\0" + jpeg[tables:],
    }


def _overwritten_between_restarts() -> bytes:
    """Of some restart intervals nothing is left but what follows them."""
    jpeg = save_jpeg(np.tile(NOISE, (4, 4, 1)), quality=90, restart_marker_blocks=4)
    middle = len(jpeg) // 2
    return jpeg[:middle] + bytes(4096) + jpeg[middle + 4096 :]


def _zero_from(jpeg: bytes, start: int) -> bytes:
    return jpeg[:start] + bytes(len(jpeg) - 2 - start) + jpeg[-2:]


def _jpeg_files() -> dict[str, ZooFile]:
    jpeg = save_jpeg()
    noise = save_jpeg(NOISE, quality=90)
    progressive = save_jpeg(progressive=True)
    progressive_noise = save_jpeg(NOISE, quality=75, progressive=True)
    scan = noise.index(b"\xff\xda") + 14
    stuffed = noise.index(b"\xff\x00", scan)
    broken_marker = noise[: stuffed + 1] + b"\x40" + noise[stuffed + 2 :]
    twelve_bit = jpeg.replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc0\x00\x11\x0c")
    thumbnail = save_jpeg(NOISE[:16, :16].copy())
    with_thumbnail = insert_segment(jpeg, 0xE1, b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0" + thumbnail)
    multi_picture = save(
        PATTERN,
        "MPO",
        save_all=True,
        append_images=[Image.fromarray(NOISE)],
        quality=95,
        subsampling=0,
    )

    def ok(data: bytes, *notes: str, pixels: np.ndarray = PATTERN) -> ZooFile:
        return ZooFile(data, WRITTEN, pixels, 4, notes=notes)

    files = {
        "jpeg": ok(jpeg),
        "jpeg_progressive": ok(progressive),
        "jpeg_restarts": ok(save_jpeg(restart_marker_blocks=1)),
        "jpeg_gray": ok(save_jpeg(GRAY), pixels=GRAY_RGB),
        "jpeg_stored_as_rgb": ok(save_jpeg(keep_rgb=True)),
        "jpeg_cmyk": ok(save_jpeg(_cmyk()), "cmyk"),
        "jpeg_cmyk_without_marker": ok(_strip_adobe(save_jpeg(_cmyk())), "cmyk"),
        "jpeg_ycck": ok(_ycck_jpeg(), "cmyk"),
        "jpeg_trailing_garbage": ok(jpeg + b"garbage \xff\xd8\xff\x00" * 50),
        "jpeg_thumbnail": ok(with_thumbnail),
        "jpeg_multi_picture": ok(multi_picture, "frames:2"),
        "jpeg_extra_bytes": ok(jpeg[:-2] + bytes(20) + jpeg[-2:], "extra_bytes"),
        **{name: ok(data) for name, data in _odd_but_whole(jpeg).items()},
        "jpeg_overwritten": ZooFile(_overwritten_between_restarts(), "corrupt"),
        "jpeg_zeros_to_the_end": ZooFile(_zero_from(noise, scan + 2000), "corrupt"),
        "jpeg_progressive_zeros": ZooFile(_zero_from(progressive_noise, 3000), "corrupt"),
        "jpeg_hole": ZooFile(noise[: scan + 900] + bytes(512) + noise[scan + 1412 :], "corrupt"),
        "jpeg_progressive_hole": ZooFile(
            progressive_noise[:6000] + bytes(600) + progressive_noise[6600:], "corrupt"
        ),
        "jpeg_rare_sampling": ok(_rarely_sampled_jpeg(), pixels=np.full((8, 24, 3), 128, np.uint8)),
        "jpeg_1x1": ok(save_jpeg(PATTERN[:1, :1].copy()), pixels=PATTERN[:1, :1]),
        "jpeg_exif_garbage": ok(
            insert_segment(jpeg, 0xE1, b"Exif\0\0" + b"\x99garbage" * 9), "exif_broken"
        ),
        "jpeg_exif_orientation_9": ok(save_jpeg(exif=make_exif(9)), "exif_broken"),
        "jpeg_xmp_orientation": ok(save_jpeg(xmp=make_xmp(6)), "xmp_orientation:6"),
        "jpeg_xmp_and_exif": ok(save_jpeg(xmp=make_xmp(6), exif=make_exif(1))),
        "jpeg_gps": ok(save_jpeg(exif=make_exif(gps=True))),
        "jpeg_profile": ok(
            save_jpeg(PATTERN[:, :, ::-1].copy(), icc_profile=swapped_profile()), "icc"
        ),
        "jpeg_srgb_profile": ok(
            save_jpeg(
                icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
            )
        ),
        "jpeg_broken_profile": ok(save_jpeg(icc_profile=b"no profile" * 20), "icc_broken"),
        "jpeg_gray_rgb_profile": ok(
            save_jpeg(GRAY, icc_profile=swapped_profile()), "icc_broken", pixels=GRAY_RGB
        ),
        "jpeg_only_start": ZooFile(jpeg[:2], "not_an_image"),
        "jpeg_cut_header": ZooFile(noise[:100], "truncated"),
        "jpeg_cut_early": ZooFile(noise[: scan + 20], "truncated"),
        "jpeg_cut_half": ZooFile(noise[: len(noise) // 2], "truncated"),
        "jpeg_cut_end_marker": ZooFile(noise[:-2], "truncated"),
        "jpeg_cut_half_marker": ZooFile(noise[:-1], "truncated"),
        "jpeg_cut_progressive": ZooFile(progressive[: len(progressive) * 2 // 3], "truncated"),
        "jpeg_cut_thumbnail": ZooFile(with_thumbnail[:-200], "truncated"),
        "jpeg_cut_then_ended": ZooFile(noise[: len(noise) // 2] + b"\xff\xd9", "corrupt"),
        "jpeg_marker_in_scan": ZooFile(broken_marker, "corrupt"),
        "jpeg_second_inside": ZooFile(noise[: len(noise) // 2] + noise, "corrupt"),
        "jpeg_12_bit": ZooFile(twelve_bit, "unsupported"),
        "jpeg_lossless": ZooFile(jpeg.replace(b"\xff\xc0", b"\xff\xc3", 1), "unsupported"),
    }
    for orientation in range(1, 9):
        rotated = save_jpeg(store_rotated(orientation), exif=make_exif(orientation))
        files[f"jpeg_orientation_{orientation}"] = ZooFile(
            rotated, WRITTEN, PATTERN, 4, orientation=orientation
        )
    return files


# --- the other formats ----------------------------------------------------------------------------


def _save_deep(pixels: np.ndarray, **settings: object) -> bytes:
    file = io.BytesIO()
    planes = settings.get("planarconfig") == "separate"
    pixels = pixels.transpose(2, 0, 1) if planes else pixels
    tifffile.imwrite(file, pixels, **{"photometric": "rgb", **settings})
    return file.getvalue()


def _premultiply(deep: np.ndarray, alpha: int) -> np.ndarray:
    """Returns RGBA of uint16, everywhere of one alpha from 0 to 255, by which colours are less."""
    colors = (deep * (alpha / 255)).astype(np.uint16)
    return np.dstack([colors, np.full(deep.shape[:2], alpha * 257, np.uint16)])


def _tiff_files() -> dict[str, ZooFile]:
    deep = PATTERN.astype(np.uint16) * 257
    plain = save(PATTERN, "TIFF")
    inverted = [Image.fromarray(255 - PATTERN)] * 2
    bilevel = np.where(PATTERN[:, :, :1] > 50, 255, 0).repeat(3, axis=2).astype(np.uint8)
    rotated = save(store_rotated(6), "TIFF", tiffinfo={274: 6})
    deep_rotated = cv2.imencode(".tiff", deep[:, :, ::-1])[1].tobytes()

    def ok(data: bytes, *notes: str, pixels: np.ndarray = PATTERN, tolerance: int = 0) -> ZooFile:
        return ZooFile(data, WRITTEN, pixels, tolerance, "tiff", notes)

    return {
        "tiff": ok(plain),
        "tiff_lzw": ok(save(PATTERN, "TIFF", compression="tiff_lzw")),
        "tiff_jpeg": ok(save(PATTERN, "TIFF", compression="jpeg", quality=95), tolerance=30),
        "tiff_fax": ok(
            save(Image.fromarray(bilevel).convert("1"), "TIFF", compression="group4"),
            pixels=bilevel,
        ),
        "tiff_cmyk": ok(save(_cmyk(), "TIFF"), "cmyk"),
        "tiff_palette": ok(save(Image.fromarray(PATTERN).quantize(4), "TIFF")),
        "tiff_pages": ok(save(PATTERN, "TIFF", save_all=True, append_images=inverted), "frames:3"),
        "tiff_16_bit": ok(deep_rotated, "16bit"),
        "tiff_gray_16_bit": ok(
            save(Image.fromarray(GRAY.astype(np.uint16) * 257), "TIFF"), "16bit", pixels=GRAY_RGB
        ),
        "tiff_planes": ZooFile(_save_deep(deep, planarconfig="separate"), "unsupported"),
        "tiff_gray_alpha_planes": ZooFile(
            _save_deep(
                np.dstack([GRAY, np.full_like(GRAY, 255)]),
                photometric="minisblack",
                planarconfig="separate",
                extrasamples=["unassalpha"],
            ),
            "unsupported",
        ),
        "tiff_premultiplied": ok(
            _save_deep(_premultiply(deep, 51), extrasamples=["assocalpha"]),
            "16bit",
            "alpha",
            pixels=np.rint(PATTERN * 0.2 + 204).astype(np.uint8),
            tolerance=1,
        ),
        "tiff_xmp_orientation": ok(
            save(PATTERN, "TIFF", tiffinfo={700: make_xmp(6)}), "xmp_orientation:6"
        ),
        "tiff_orientation_6": ZooFile(
            rotated, WRITTEN, PATTERN, source_format="tiff", orientation=6
        ),
        "tiff_float": ZooFile(
            save(Image.fromarray(GRAY.astype(np.float32)), "TIFF"), "unsupported"
        ),
        "tiff_cut": ZooFile(plain[: len(plain) // 2], "truncated"),
        "tiff_cut_lzw": ZooFile(save(NOISE, "TIFF", compression="tiff_lzw")[:2000], "truncated"),
    }


def _other_files() -> dict[str, ZooFile]:
    frames = {"save_all": True, "append_images": [Image.fromarray(255 - PATTERN)], "duration": 9}
    alpha = np.dstack([PATTERN, np.full(PATTERN.shape[:2], 255, np.uint8)])
    alpha[:16, :24, 3] = 0
    laid = PATTERN.copy()
    laid[:16, :24] = 255
    gif = save(PATTERN, "GIF")
    files = {
        "webp": ZooFile(save(GRAY_RGB, "WEBP", quality=95), WRITTEN, GRAY_RGB, 8, "webp"),
        "webp_lossless_alpha": ZooFile(
            save(alpha, "WEBP", lossless=True), WRITTEN, laid, 0, "webp", ("alpha",)
        ),
        "webp_animated": ZooFile(
            save(PATTERN, "WEBP", lossless=True, **frames),
            WRITTEN,
            PATTERN,
            0,
            "webp",
            ("frames:2",),
        ),
        "webp_cut": ZooFile(save(NOISE, "WEBP")[:300], "corrupt"),
        "gif": ZooFile(gif, WRITTEN, PATTERN, 0, "gif"),
        "gif_animated": ZooFile(
            save(PATTERN, "GIF", **frames), WRITTEN, PATTERN, 0, "gif", ("frames:2",)
        ),
        "gif_cut": ZooFile(save(NOISE, "GIF")[:2000], "truncated"),
        "bmp_24_bit": ZooFile(save(PATTERN, "BMP"), WRITTEN, PATTERN, 0, "bmp"),
        "bmp_32_bit": ZooFile(
            save(alpha, "BMP"), WRITTEN, PATTERN, 0, "bmp"
        ),  # the fourth byte is padding
        "bmp_8_bit": ZooFile(save(GRAY, "BMP"), WRITTEN, GRAY_RGB, 0, "bmp"),
        "bmp_palette": ZooFile(
            save(Image.fromarray(PATTERN).quantize(4), "BMP"), WRITTEN, PATTERN, 0, "bmp"
        ),
        "bmp_cut": ZooFile(save(PATTERN, "BMP")[:-100], "truncated"),
    }
    if features.check("avif"):
        avif = save(PATTERN, "AVIF", quality=95, subsampling="4:4:4")
        files["avif"] = ZooFile(avif, WRITTEN, PATTERN, 12, "avif")
    by_extras = {
        "heic": ZooFile(save_heic(PATTERN), WRITTEN, PATTERN, 0, "heic"),
        "heic_turned": ZooFile(
            save_heic(store_rotated(6), exif=make_exif(6)), WRITTEN, PATTERN, 0, "heic"
        ),
        "heic_10_bit": ZooFile(
            save_heic(PATTERN.astype(np.uint16) * 257), WRITTEN, PATTERN, 0, "heic", ("10bit",)
        ),
        "heic_alpha": ZooFile(save_heic(alpha), WRITTEN, laid, 0, "heic", ("alpha",)),
        "heic_cut": ZooFile(save_heic(PATTERN)[:-20], "truncated"),
        "heic_zeros": ZooFile(save_heic(NOISE)[:-200] + bytes(200), "truncated"),
        "jxl": ZooFile(save_jxl(PATTERN), WRITTEN, PATTERN, 0, "jxl"),
        "jxl_gray": ZooFile(save_jxl(GRAY), WRITTEN, GRAY_RGB, 0, "jxl"),
        "jxl_alpha": ZooFile(save_jxl(alpha), WRITTEN, laid, 0, "jxl", ("alpha",)),
        "jxl_lossy": ZooFile(save_jxl(GRAY_RGB, lossless=False), WRITTEN, GRAY_RGB, 30, "jxl"),
        "jxl_jpeg": ZooFile(
            jpegxl_encode_jpeg(
                save_jpeg(store_rotated(6), exif=make_exif(6), icc_profile=swapped_profile())
            ),
            WRITTEN,
            PATTERN[:, :, ::-1],
            3,
            "jxl",
            ("icc",),
        ),
        "jxl_cut": ZooFile(save_jxl(NOISE)[:-1], "truncated"),
        "jxl_linear": ZooFile(save_jxl(PATTERN.astype(np.uint16)), "unsupported"),
        "jxl_floats": ZooFile(save_jxl(PATTERN.astype(np.float32)), "unsupported"),
        "jxl_frames": ZooFile(save_jxl(np.stack([PATTERN, PATTERN])), "unsupported"),
        "dicom": ZooFile(save_dicom(PATTERN), WRITTEN, PATTERN, 0, "dicom"),
        "dicom_gray": ZooFile(save_dicom(GRAY), WRITTEN, GRAY_RGB, 0, "dicom"),
        "dicom_window": ZooFile(
            save_dicom(
                GRAY.astype(np.int16) * 4 - 500,
                **{"RescaleSlope": 0.25, "RescaleIntercept": 125},
                **{"WindowCenter": 128, "WindowWidth": 256},
            ),
            WRITTEN,
            GRAY_RGB,
            0,
            "dicom",
            ("window",),
        ),
        "dicom_16_bit": ZooFile(
            save_dicom(GRAY.astype(np.uint16) * 257), WRITTEN, GRAY_RGB, 0, "dicom", ("16bit",)
        ),
        "dicom_tables": ZooFile(
            save_dicom(
                255 - GRAY,
                ModalityLUTSequence=[make_table(0, [*range(255, -1, -1)], 8)],
                VOILUTSequence=[make_table(0, [*range(256)], 8)],
            ),
            WRITTEN,
            GRAY_RGB,
            0,
            "dicom",
            ("window",),
        ),
        "dicom_jpeg": ZooFile(
            save_dicom(GRAY, JPEGBaseline8Bit, PixelData=encapsulate([save_jpeg(GRAY)])),
            WRITTEN,
            GRAY_RGB,
            3,
            "dicom",
        ),
        "dicom_cut": ZooFile(save_dicom(PATTERN)[:-1], "truncated"),
    }
    return files | by_extras


def _npy_files() -> dict[str, ZooFile]:
    def ok(data: bytes, pixels: np.ndarray = PATTERN) -> ZooFile:
        return ZooFile(data, WRITTEN, pixels, 0, "npy")

    rgb = save_array(PATTERN)
    return {
        "npy": ok(rgb),
        "npy_version_2": ok(save_array(PATTERN, (2, 0))),
        "npy_version_3": ok(save_array(PATTERN, (3, 0))),
        "npy_gray": ok(save_array(GRAY), GRAY_RGB),
        "npy_one_channel": ok(save_array(GRAY[:, :, None]), GRAY_RGB),
        "npy_fortran": ok(save_array(np.asfortranarray(PATTERN))),
        "npy_version_9": ZooFile(rgb[:6] + b"\x09" + rgb[7:], "unsupported"),
        "npy_objects": ZooFile(save_array(np.array([[{}, 3]], object)), "unsupported"),
        "npy_structures": ZooFile(save_array(np.zeros((2, 2), "u1,f4")), "unsupported"),
        "npy_bool": ZooFile(save_array(GRAY > 90), "unsupported"),
        "npy_channels_first": ZooFile(save_array(PATTERN.transpose(2, 0, 1)), "unsupported"),
        "npy_flat": ZooFile(save_array(GRAY.ravel()), "unsupported"),
        "npy_no_height": ZooFile(save_array(PATTERN[:0]), "too_small"),
        "npy_bomb": ZooFile(rgb.replace(b"(32, 48, 3)", b"(9999999999, 48, 3)"), "unsupported"),
        "npy_many_pixels": ZooFile(rgb.replace(b"(32,", b"(9999999,"), "too_many_pixels"),
        "npy_magic_only": ZooFile(rgb[:6], "truncated"),
        "npy_cut_header": ZooFile(rgb[:100], "truncated"),
        "npy_cut": ZooFile(rgb[:-1], "truncated"),
        "npy_surplus": ZooFile(rgb + b"\0", "corrupt"),
        "npy_damaged_header": ZooFile(rgb.replace(b"fortran", b"\0ortran"), "corrupt"),
        "npy_long_header": ZooFile(rgb[:8] + b"\xff\xff" + bytes(70_000), "unsupported"),
    }


def _other_kinds() -> dict[str, ZooFile]:
    return {
        "empty": ZooFile(b"", "empty"),
        "one_zero": ZooFile(b"\0", "not_an_image"),
        "zeros": ZooFile(bytes(5000), "not_an_image"),
        "text": ZooFile(b"a cat, sitting", "not_an_image"),
        "html": ZooFile(b"<!DOCTYPE html><html>404 not found</html>", "not_an_image"),
        "pdf": ZooFile(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj", "not_an_image"),
        "mp4": ZooFile(b"\0\0\0\x20ftypisom\0\0\2\0isomiso2avc1mp41", "not_an_image"),
        "zip": ZooFile(b"PK\3\4\x14\0\0\0" + bytes(40), "archive"),
        "photoshop": ZooFile(b"8BPS\0\1" + bytes(40), "unsupported"),
        "svg": ZooFile(b'<?xml version="1.0"?>\n<svg width="9" height="9"/>', "unsupported"),
        "jpeg_2000": ZooFile(save(PATTERN, "JPEG2000"), "unsupported"),
        "ppm": ZooFile(save(PATTERN, "PPM"), "unsupported"),
        "tga": ZooFile(save(PATTERN, "TGA"), "unsupported"),
        "icon": ZooFile(save(PATTERN, "ICO"), "unsupported"),
        "big_endian_bigtiff": ZooFile(b"MM\0+\0\x08\0\0" + bytes(40), "unsupported"),
    }


ZOO = {
    **{**_jpeg_files(), **_png_files(), **_tiff_files()},
    **{**_other_files(), **_npy_files(), **_other_kinds()},
}
