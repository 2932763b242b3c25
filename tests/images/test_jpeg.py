"""The segments of a JPEG; zeros where its data was are found where they can be told."""

import io
import itertools
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFile

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.jpeg import read_jpeg_structure, read_plain_header
from image_pipeline.components.images.jpeg_holes import (
    LEAST_HOLE_BYTES,
    check_holes,
    lacks_scans,
    read_scans,
)
from image_pipeline.components.images.prepare import PreparedImage, PrepareOptions, prepare_image
from tests.drawings import draw_smooth
from tests.images import zoo

pytestmark = pytest.mark.unit


def save_jpeg(mode, width, height, **settings):
    file = io.BytesIO()
    Image.new(mode, (width, height)).save(file, "JPEG", **settings)
    return file.getvalue()


@given(
    st.sampled_from(["L", "RGB"]),
    st.integers(1, 300),
    st.integers(1, 300),
    st.booleans(),
    st.integers(1, 95),
)
def test_the_plain_header_is_what_pillow_reads(mode, width, height, progressive, quality):
    data = save_jpeg(mode, width, height, progressive=progressive, quality=quality, comment=b"x")
    header = read_plain_header(data)
    with Image.open(io.BytesIO(data)) as image:
        assert (header.width, header.height, header.mode) == (*image.size, image.mode)
        assert (header.format, header.info.get("exif")) == (image.format, image.info.get("exif"))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"text", id="text"),
        pytest.param(save_jpeg("CMYK", 8, 8), id="cmyk"),
        pytest.param(save_jpeg("RGB", 8, 8, exif=b"Exif\0\0"), id="exif"),
        pytest.param(save_jpeg("RGB", 8, 8, icc_profile=b"any"), id="profile"),
        pytest.param(save_jpeg("RGB", 8, 8)[:100], id="cut"),
    ],
)
def test_every_other_file_is_left_to_pillow(data):
    assert read_plain_header(data) is None


@given(st.integers(0, 622), st.integers(0, 255))
def test_damage_gives_a_header_or_none(position, value):
    data = bytearray(save_jpeg("RGB", 16, 16))
    data[position] = value
    header = read_plain_header(bytes(data))
    assert header is None or (header.height > 0 and header.width > 0)


AS_IS = PrepareOptions(resize="none", encoding="raw")
KINDS: dict[str, dict[str, Any]] = {
    "baseline": {},
    "optimised": {"optimize": True, "quality": 75},
    "progressive": {"progressive": True, "quality": 75},
    "progressive_fine": {"progressive": True, "quality": 92},
}


def draw_photo(seed: int) -> np.ndarray:
    """Smooth shapes under a little noise, as a camera's sensor adds: uint8 [384, 512, 3]."""
    noise = np.random.default_rng(seed).normal(0, 6, (384, 512, 3))
    return np.clip(draw_smooth(seed, 384, 512) + noise, 0, 255).astype(np.uint8)


PHOTOS = [draw_photo(seed) for seed in range(4)]


def scan_bounds(data: bytes) -> tuple[int, int]:
    structure = read_jpeg_structure(data)
    return structure.first_scan + 14, structure.end_offset


def is_refused(data: bytes) -> bool:
    try:
        prepare_image(data, AS_IS)
    except BadImage as error:
        return error.reason in ("corrupt", "truncated")
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_up_to_the_end_marker_are_always_found(kind):
    for photo, percent in itertools.product(PHOTOS, range(5, 100, 5)):
        data = zoo.save_jpeg(photo, **KINDS[kind])
        start, end = scan_bounds(data)
        at = start + (end - start) * percent // 100
        assert is_refused(data[:at] + bytes(end - at) + data[end:]), percent


@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hole_bytes", [512, 4096])
def test_a_lost_block_of_a_disk_is_found(kind, hole_bytes):
    """But for those of scans that add a bit each to means, or of the first five coefficients."""
    missed, tried = [], 0
    for photo, percent in itertools.product(PHOTOS, range(5, 80, 5)):
        data = zoo.save_jpeg(photo, **KINDS[kind])
        start, end = scan_bounds(data)
        at = start + (end - start) * percent // 100
        if at + hole_bytes < end:
            tried += 1
            if not is_refused(data[:at] + bytes(hole_bytes) + data[at + hole_bytes :]):
                missed.append(percent)
    assert tried >= 40 and len(missed) <= 1, missed


def draw_patterns() -> dict[str, np.ndarray]:
    """Drawings of which whole lines of zero bytes are the right codes: uint8 [512, 512, 3]."""
    rng = np.random.default_rng(2)
    x = np.mgrid[:512, :512][1]
    drawings = {f"flat_{level}": np.full((512, 512), level) for level in (0, 37, 128, 255)}
    drawings |= {"falling": 255 - x // 2, "saw": 255 - (x // 8 * 24) % 256}
    for period, phase in itertools.product((2, 4, 8, 16), range(4)):
        drawings[f"stripes_{period}_{phase}"] = (x + phase) // (period // 2) % 2 * 200 + 20
    for number in range(12):
        waves = np.zeros((8, 8))
        for row, column in rng.integers(0, 8, (rng.integers(1, 6), 2)):
            waves[row, column] = -rng.integers(5, 600)
        drawings[f"waves_{number}"] = np.tile(cv2.idct(waves) + rng.integers(40, 220), (64, 64))
    page = np.full((512, 512), 255)
    page[100:200, 100:300] = rng.integers(0, 256, (100, 200))
    drawings["page"] = page
    return {
        name: np.repeat(np.clip(gray, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)
        for name, gray in drawings.items()
    }


def test_no_drawing_is_refused_for_its_zeros(monkeypatch):
    monkeypatch.setattr(ImageFile, "MAXBLOCK", 2**22)
    with_zeros = 0
    for name, drawing in draw_patterns().items():
        for settings in ({"optimize": True}, {"progressive": True}, {}):
            for quality, gray in itertools.product((10, 75, 100), (False, True)):
                image = Image.fromarray(drawing).convert("L" if gray else "RGB")
                chroma = {} if gray else {"subsampling": 2}
                data = zoo.save(image, "JPEG", quality=quality, **chroma, **settings)
                with_zeros += bytes(LEAST_HOLE_BYTES) in data
                expected = ("gray",) if gray else ()
                assert prepare_image(data, AS_IS).notes == expected, (name, settings, quality)
    assert with_zeros >= 100


def test_what_cannot_be_told_from_a_flat_image_is_not_refused():
    """Where zeros are the code of "as before", a hole is a flat patch."""
    data = zoo.save_jpeg(np.full((512, 512, 3), 90, np.uint8), optimize=True)
    start, end = scan_bounds(data)
    assert data[start:end].count(0) > 0.9 * (end - start)
    check_holes(data, read_jpeg_structure(data), left_over=0)


def test_padding_before_the_end_is_no_hole():
    for settings in KINDS.values():
        data = zoo.save_jpeg(PHOTOS[0], **settings)
        padded = data[:-2] + bytes(5000) + data[-2:]
        assert _prepare(padded).notes == ("extra_bytes",)
        assert _prepare(padded).encoded == _prepare(data).encoded


def _prepare(data: bytes) -> PreparedImage:
    return prepare_image(data, AS_IS)


def end_after_scans(data: bytes, count: int) -> bytes:
    """The first scans of a progressive file, and an end marker."""
    starts = [at for at in range(len(data)) if data[at : at + 2] == b"\xff\xda"]
    tables = data.rindex(b"\xff\xc4", 0, starts[count])
    return data[: min(tables, starts[count])] + b"\xff\xd9"


def test_a_file_that_ends_between_scans_is_noted():
    data = zoo.save_jpeg(PHOTOS[1], progressive=True)
    early = end_after_scans(data, 4)
    assert lacks_scans(early)
    assert not lacks_scans(data)
    assert _prepare(early).notes == ("missing_scans",)
    assert _prepare(data).notes == ()


def test_missing_scans_and_something_in_their_place_is_damage():
    early = end_after_scans(zoo.save_jpeg(PHOTOS[1], progressive=True), 4)
    with pytest.raises(
        BadImage, match=r"last scans are missing, \d+ bytes of something else"
    ) as it:
        _prepare(early[:-2] + b"\x55" * 40 + early[-2:])
    assert it.value.reason == "truncated"


def test_the_scans_of_an_ordinary_file():
    (scan,) = read_scans(zoo.save_jpeg(subsampling=2))
    assert (scan.progressive, scan.first, scan.last, scan.shift) == (False, 0, 63, 0)
    assert [component.blocks for component in scan.components] == [4, 1, 1]
    luma = scan.components[0]
    # The tables of T.81, annex K: two zeros say "no difference", and "-1 or 1 comes next".
    assert luma.dc and luma.ac
    assert (luma.dc.zeros_symbol, luma.dc.zeros_length) == (0, 2)
    assert (luma.ac.zeros_symbol, luma.ac.zeros_length, len(luma.ac.symbols)) == (1, 2, 162)
    assert luma.dc_step == 2  # of quality 95


def test_the_scans_of_a_progressive_file():
    data = zoo.save_jpeg(progressive=True)
    scans = read_scans(data)
    assert [(s.first, s.last, s.is_refined, s.shift) for s in scans] == [
        (0, 0, False, 1),
        (1, 5, False, 2),
        (1, 63, False, 1),
        (1, 63, False, 1),
        (6, 63, False, 2),
        (1, 63, True, 1),
        (0, 0, True, 0),
        (1, 63, True, 0),
        (1, 63, True, 0),
        (1, 63, True, 0),
    ]
    assert [len(scan.components) for scan in scans] == [3, 1, 1, 1, 1, 1, 3, 1, 1, 1]
    assert all(data[scan.end] == 0xFF for scan in scans)


def test_other_codes_have_no_scans():
    data = zoo.save_jpeg()
    assert read_scans(data.replace(b"\xff\xc0", b"\xff\xc9", 1)) == []
    assert read_scans(b"") == []


@given(st.booleans(), st.data())
def test_no_damage_breaks_the_reading(progressive: bool, draw: st.DataObject):
    data = bytearray(zoo.save_jpeg(progressive=progressive))
    for _ in range(draw.draw(st.integers(1, 6))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    for scan in read_scans(bytes(data[: draw.draw(st.integers(0, len(data)))])):
        assert 1 <= len(scan.components) <= 4
