"""What a third party's decoder raises makes an image bad; our own errors stop the run."""

import dataclasses
import errno
import importlib
import inspect
import io
import pkgutil
import struct
from functools import partial

import cv2
import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageCms, ImageFile

import image_pipeline.components.images
from image_pipeline.components.errors import UserError
from image_pipeline.components.images import color, decode, jpeg, mask_file, sound
from image_pipeline.components.images.bad_image import (
    CORRUPT,
    TRUNCATED,
    UNSUPPORTED,
    BadImage,
    call_decoder,
)
from image_pipeline.components.images.header import open_image
from image_pipeline.components.images.options import _make_table
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from image_pipeline.components.images.sound import SoundOptions
from image_pipeline.components.labels import boxes, masks
from image_pipeline.components.labels.boxes import BoxAnnotation, BoxOptions, prepare_boxes
from image_pipeline.components.labels.masks import MaskOptions, prepare_mask
from tests.images import zoo
from tests.images.profiles import ADOBE_RGB, rgb_profile, table_curve
from tests.images.test_mask_file import LEVELS, make_image, save, write_png
from tests.sounds import build_wav, encode, make_tone
from tests.tiers import wide

pytestmark = pytest.mark.unit

AS_IS = PrepareOptions(resize="none", encoding="raw")
SHRUNK = PrepareOptions(size_px=4, encoding="original")
MODULES = [
    importlib.import_module(f"image_pipeline.components.images.{module.name}")
    for module in pkgutil.iter_modules(image_pipeline.components.images.__path__)
]
MODULES += [boxes, masks]
# Enough files to come through every function.
NAMES = [
    *("jpeg", "jpeg_cmyk", "jpeg_profile", "jpeg_extra_bytes", "jpeg_orientation_6", "png_alpha"),
    *("png_4_bit_clear_level", "png_animated", "tiff", "tiff_16_bit", "tiff_planes", "gif"),
    *("webp", "jpeg_gray_rgb_profile", "png_profile", "zip", "tiff_cut_lzw", "jpeg_cut_header"),
    *("tiff_premultiplied", "jpeg_progressive", "jpeg_12_bit", "text", "jpeg_xmp_orientation"),
    *("png_raw_profile", "png_late_orientation_6", "tiff_gray_16_bit", "png_no_end"),
    *("tiff_float", "tiff_gray_alpha_planes", "jpeg_hole", "jpeg_progressive_hole"),
    *("npy", "npy_bool", "heic", "heic_cut", "jxl_alpha", "jxl_jpeg", "dicom_window"),
    *("dicom_tables", "dicom_jpeg"),
]
TABLES = rgb_profile(ADOBE_RGB, [table_curve(1.8)] * 3)
FILES = [zoo.ZOO[name].data for name in NAMES] + [zoo.save_jpeg(icc_profile=TABLES)]
SOUNDS = PrepareOptions(sound=SoundOptions(sample_rate_hz=4_000, mel_bins=8))
FILES += [encode(make_tone(440), kind=kind) for kind in ("WAV", "FLAC")] + [build_wav()[:30]]
# `call_decoder` and what it calls are the boundary itself.
LEFT_OUT = {"call_decoder", "explain_decoder_error"}
LEFT_OUT |= {"prepare_image", "prepare_mask", "prepare_boxes", "check_ids"}
LEFT_OUT |= {"find_levels", "_find_percentile", "say_cut"}  # of what was counted in images
LEFT_OUT |= {"_deep", "_find_crossed"}  # of options, before there are images
LEFT_OUT |= {"list_missing"}  # of what is installed
LEFT_OUT |= {"make_header", "make_file"}  # of rows of arrays and of videos, which are not files
MASKS = [
    (write_png(LEVELS, 8), MaskOptions()),
    (save(LEVELS.astype("uint8"), "TIFF"), MaskOptions(ignored=(3,))),
    (write_png(LEVELS, 8), MaskOptions(classes={"a": "#000000", "b": "#010101"})),
    (save(np.stack([LEVELS] * 3, axis=-1).astype("uint8"), "PNG"), MaskOptions()),
    (zoo.save_array(LEVELS.astype("uint8")), MaskOptions()),
]
# Of other values than 8-bit gray and RGB.
DEEP = [
    (zoo.ZOO["png_rgb_16_bit"].data, {"dtype": "uint16"}),
    (zoo.ZOO["tiff_16_bit"].data, {"dtype": "uint16", "channels": 3}),
    (zoo.ZOO["tiff_float"].data, {"dtype": "float32"}),
    (zoo.ZOO["png_alpha"].data, {"channels": 4}),
    (zoo.ZOO["jpeg"].data, {"dtype": "float32"}),
    (zoo.save_array(np.zeros((9, 9, 2), np.float16)), {"dtype": "float16", "channels": 2}),
    (zoo.save_array(np.zeros((9, 9, 3), np.uint16)), {"dtype": "uint16"}),
]
SAID = [BoxAnnotation((0.0, 0.0, 2.0, 2.0), "a"), BoxAnnotation((0.0, 0.0, 0.0, 0.0), "a")]
OWN = sorted(
    (module.__name__, name)
    for module in MODULES
    for name, function in vars(module).items()
    if callable(function)
    and getattr(function, "__module__", None) == module.__name__
    and not inspect.isclass(function)
    and name not in LEFT_OUT
)


def forget_what_was_made():
    made = (color._srgb_transform, _make_table, sound._make_low_pass)
    for function in (*made, sound.make_filters, sound.make_window):
        function.cache_clear()


@pytest.fixture(autouse=True)
def fresh():
    forget_what_was_made()
    yield
    forget_what_was_made()


def patch_everywhere(monkeypatch, module_name: str, name: str, replacement) -> None:
    original = getattr(importlib.import_module(module_name), name)
    for module in MODULES:
        for attribute, value in list(vars(module).items()):
            if value is original:
                monkeypatch.setattr(module, attribute, replacement)


def prepare_all() -> list[str]:
    """Prepares `FILES`, `MASKS` and `SAID`; returns the errors that were no `BadImage`."""
    raised = []
    for data in FILES:
        every = (AS_IS, SHRUNK, SOUNDS)
        reads = [partial(prepare_image, data, options) for options in every]
        reads += [partial(decode.read_image_header, data), partial(sound.measure_sound, data)]
        reads.append(partial(jpeg.has_many_scans, data))
        for read in reads:
            try:
                read()
            except BadImage:
                pass
            except Exception as error:
                raised.append(repr(error))
    for data, options in DEEP:
        try:
            prepare_image(data, PrepareOptions(size_px=4, encoding="raw", **options))
        except BadImage:
            pass
        except Exception as error:
            raised.append(repr(error))
    for data, options in MASKS:
        shrunk = dataclasses.replace(make_image(), height=1, width=2)
        whole = partial(prepare_mask, data, shrunk, options)
        for read in (whole, partial(mask_file.list_values, data)):
            try:
                read()
            except BadImage:
                pass
            except Exception as error:
                raised.append(repr(error))
    try:
        prepare_boxes(SAID, (), make_image(), BoxOptions(classes=("a",)))
    except BadImage:
        pass
    except Exception as error:
        raised.append(repr(error))
    return raised


@pytest.mark.parametrize("kind", [MemoryError, *map(wide, (TypeError, KeyError, ValueError))])
def test_an_error_of_our_own_stops_the_run(kind, monkeypatch):
    for module, name in OWN:
        error = kind("a bug in " + name)
        calls = []

        def fail(*args, calls=calls, error=error, **kwargs):
            calls.append(None)
            raise error

        forget_what_was_made()
        with monkeypatch.context() as patched:
            patch_everywhere(patched, module, name, fail)
            raised = prepare_all()
        assert calls, f"no file of the zoo comes through {name}"
        assert raised == [repr(error)] * len(calls), f"images were called bad by {name}"


@pytest.mark.parametrize(
    ("owner", "name", "file", "outcome"),
    [
        (cv2, "imdecode", "png", cv2.error),
        (cv2, "imdecode", "tiff_16_bit", cv2.error),
        (Image, "open", "gif", None),
        (ImageFile.ImageFile, "load", "bmp_24_bit", None),
        (Image.Image, "convert", "gif", None),
    ],
)
def test_whatever_a_decoder_raises_is_the_image_s(owner, name, file, outcome, monkeypatch):
    kinds = [outcome] if outcome else [AttributeError, TypeError, KeyError, IndexError]
    kinds += [] if outcome else [AssertionError, NotImplementedError, EOFError, OverflowError]
    for kind in kinds:
        monkeypatch.setattr(owner, name, raise_error(kind("odd")))
        with pytest.raises(BadImage, match="odd") as caught:
            prepare_image(zoo.ZOO[file].data, AS_IS)
        assert caught.value.reason == CORRUPT
        assert isinstance(caught.value.__cause__, kind)


@pytest.mark.parametrize(
    ("owner", "name", "file"),
    [
        (simplejpeg, "decode_jpeg", "jpeg"),
        (cv2, "imdecode", "png"),
        (ImageFile.ImageFile, "load", "bmp_24_bit"),
        (ImageCms, "applyTransform", "jpeg_profile"),
        (cv2, "cvtColor", "png"),
    ],
)
def test_too_little_memory_is_no_fault_of_the_image(owner, name, file, monkeypatch):
    monkeypatch.setattr(owner, name, raise_error(MemoryError()))
    with pytest.raises(MemoryError):
        prepare_image(zoo.ZOO[file].data, AS_IS)


def test_opencv_s_own_word_for_too_little_memory_is_understood():
    error = cv2.error("Failed to allocate 8000000000 bytes")
    error.code = cv2.Error.StsNoMem
    with pytest.raises(MemoryError, match="Failed to allocate"):
        call_decoder(raise_error(error), errors=(cv2.error,))


def test_a_call_that_opencv_does_not_understand_is_our_bug():
    with pytest.raises(TypeError):
        call_decoder(raise_error(TypeError("no such argument")), errors=(cv2.error,))


def test_a_broken_profile_is_noted(monkeypatch):
    monkeypatch.setattr(ImageCms, "buildTransform", raise_error(ImageCms.PyCMSError("odd")))
    assert prepare_image(zoo.ZOO["jpeg_profile"].data, AS_IS).notes == ("icc_broken",)


def test_a_jpeg_that_libjpeg_finds_damaged_is_not_tried_again(monkeypatch):
    error = ValueError("Premature end of JPEG file")
    monkeypatch.setattr(simplejpeg, "decode_jpeg", raise_error(error))
    with pytest.raises(BadImage, match="Premature end") as caught:
        prepare_image(zoo.ZOO["jpeg"].data, AS_IS)
    assert (caught.value.reason, caught.value.__cause__) == (CORRUPT, error)


def test_truncation_is_told_apart():
    with pytest.raises(BadImage) as caught:
        call_decoder(raise_error(OSError("image file is truncated (3 bytes not processed)")))
    assert caught.value.reason == TRUNCATED


def raise_error(error: Exception):
    def fail(*args, **kwargs):
        raise error

    return fail


def test_messages_are_the_same_in_every_run():
    """A decoder quotes its objects' addresses: `<_io.BytesIO object at 0x7f…>`."""
    kept = BadImage("corrupt", "cannot read <_io.BytesIO object at 0x7fA3> at 0x90")
    assert kept.message == "cannot read <_io.BytesIO object>"
    with pytest.raises(BadImage) as caught:
        prepare_image(b"GIF89a" + bytes(30), PrepareOptions())
    assert "0x" not in caught.value.message


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RuntimeError("can't start new thread"), "No further thread"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "too little memory"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many files"),
    ],
)
def test_what_the_machine_lacks_is_not_the_image_s_fault(error, says):
    with pytest.raises(UserError, match=says):
        call_decoder(raise_error(error))


@pytest.mark.parametrize("text", ["quoted: can't start new thread", "Cannot allocate memory"])
def test_an_image_that_is_quoted_blames_nobody_else(text):
    with pytest.raises(BadImage, match="the decoder gave up"):
        call_decoder(raise_error(RuntimeError(text)))


def test_a_layout_that_the_decoder_does_not_read_is_no_damage():
    """A whole bitmap of 32 bits whose first byte is red."""
    masks = struct.pack("<3I", 0xFF, 0xFF00, 0xFF0000)
    header = struct.pack("<IiiHHIIiiII", 40, 2, 1, 1, 32, 3, 8, 0, 0, 0, 0)
    data = b"BM" + struct.pack("<IHHI", 74, 0, 0, 66) + header + masks + bytes(8)
    with pytest.raises(BadImage, match=r"bitfields layout.*; convert it to PNG") as raised:
        prepare_image(data, AS_IS)
    assert raised.value.reason == UNSUPPORTED


@pytest.mark.parametrize(("kind", "plugin"), [("webp", "WebP"), ("avif", "Avif")])
def test_images_are_not_rejected_because_a_library_could_not_be_loaded(monkeypatch, kind, plugin):
    """Pillow goes on without one: under `ulimit -v`, all WebP files were rejected as damaged."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, kind)
    open_image(file.getvalue())
    monkeypatch.setattr(f"PIL.{plugin}ImagePlugin.SUPPORTED", False)
    factory, _ = Image.OPEN[kind.upper()]
    monkeypatch.setitem(Image.OPEN, kind.upper(), (factory, lambda prefix: f"no {kind} here"))
    with pytest.raises(UserError, match=f"Pillow could not load its library for {kind} files"):
        open_image(file.getvalue())


def test_what_is_no_text_is_escaped():
    error = BadImage("gone\ud800", "there is no a\udcff.png")
    assert (error.reason, error.message) == (r"gone\ud800", r"there is no a\udcff.png")
