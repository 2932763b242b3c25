"""Every layout of a TIFF, held against tifffile: decoded right, or refused with a reason."""

import io
import itertools
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from image_pipeline.components.images.bad_image import CORRUPT, TRUNCATED, UNSUPPORTED, BadImage
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from tests.images import zoo

pytestmark = pytest.mark.unit

AS_IS = PrepareOptions(resize="none", encoding="raw")
HEIGHT, WIDTH = 40, 56
# Of a colour over its background: one rounding of the colour and one of the alpha, to 8 bits.
TOLERANCE = 2
EXTRAS = ("unspecified", "assocalpha", "unassalpha")
CONTAINERS = {
    "little": {"byteorder": "<"},
    "big": {"byteorder": ">"},
    "bigtiff": {"byteorder": "<", "bigtiff": True},
}
STORAGE: dict[str, dict[str, Any]] = {
    "strips": {"rowsperstrip": 13},
    "deflated_strips": {"rowsperstrip": 13, "compression": "zlib"},
    "predicted_tiles": {"tile": (16, 16), "compression": "zlib", "predictor": True},
    "tiles": {"tile": (16, 32)},
}


def draw(dtype: str, channels: int, extra: str | None) -> np.ndarray:
    """Noise of [HEIGHT, WIDTH, channels]; its colours multiplied by the alpha if that is said."""
    top = np.iinfo(dtype).max
    noise = np.random.default_rng(channels).integers(0, top + 1, (HEIGHT, WIDTH, channels))
    if extra == "assocalpha":
        noise[..., :-1] = noise[..., :-1] * noise[..., -1:] // top
    return noise.astype(dtype)


def save_tiff(samples: np.ndarray, extra: str | None = None, planes: bool = False, **settings: Any):
    if extra:
        settings["extrasamples"] = [extra]
    if samples.ndim == 3:
        settings["planarconfig"] = "separate" if planes else "contig"
        samples = samples.transpose(2, 0, 1) if planes else samples
    file = io.BytesIO()
    tifffile.imwrite(file, samples, **settings)
    return file.getvalue()


def expect(data: bytes, extra: str | None) -> np.ndarray:
    """What tifffile reads, over white: float64 [HEIGHT, WIDTH, 3]."""
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        page = file.pages[0]
        samples = np.atleast_3d(page.asarray())  # type: ignore[union-attr]
        if page.tags.get("PlanarConfiguration", None) and page.planarconfig == 2:  # type: ignore
            samples = samples.transpose(1, 2, 0)
    samples = samples / np.iinfo(samples.dtype).max
    colors = samples[..., :3] if samples.shape[2] >= 3 else samples[..., :1]
    if samples.shape[2] in (2, 4) and extra != "unspecified":
        alpha = samples[..., -1:]
        colors = (colors if extra == "assocalpha" else colors * alpha) + (1 - alpha)
    return np.broadcast_to(np.clip(colors * 255, 0, 255), (HEIGHT, WIDTH, 3))


def decode(data: bytes) -> np.ndarray:
    """Decodes five times: what was not decoded, but lay in memory, differs."""
    images = []
    for level in range(5):
        images.append(prepare_image(data, AS_IS))
        _fill_free_memory(level * 50)
    assert len({image.encoded for image in images}) == 1
    return np.frombuffer(images[0].encoded, np.uint8).reshape(HEIGHT, WIDTH, 3).astype(float)


def _fill_free_memory(level: int) -> None:
    for pixel_bytes in range(1, 9):
        np.full(HEIGHT * WIDTH * pixel_bytes, level, np.uint8)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_every_layout_is_read_as_tifffile_reads_it(dtype, channels, container, storage):
    extras = EXTRAS if channels == 4 else (None,)
    photometric = "minisblack" if channels == 1 else "rgb"
    for extra in extras:
        samples = draw(dtype, channels, extra)
        settings = {**CONTAINERS[container], **STORAGE[storage], "photometric": photometric}
        samples = samples[..., 0] if channels == 1 else samples
        data = save_tiff(samples, extra, **settings)
        difference = np.abs(decode(data) - expect(data, extra))
        assert difference.max() <= TOLERANCE, extra


LAYOUTS = [
    (dtype, photometric, channels, extra, planes)
    for dtype, photometric, channels, extra, planes in itertools.product(
        ("uint8", "uint16", "int8", "int16", "uint32", "float16", "float32", "float64"),
        ("minisblack", "miniswhite", "rgb", "separated"),
        (1, 2, 3, 4, 5),
        (None, *EXTRAS),
        (False, True),
    )
    if channels >= {"rgb": 3, "separated": 4}.get(photometric, 1)
    and channels - {"rgb": 3, "separated": 4}.get(photometric, 1) == (extra is not None)
]


@pytest.mark.parametrize("storage", ["strips", "deflated_strips"])
def test_a_rare_layout_is_read_right_or_refused(storage):
    """Also gray with alpha, white as zero, inks, signed numbers and floats: 8 to 64 bits."""
    read = 0
    for dtype, photometric, channels, extra, planes in LAYOUTS:
        top = np.iinfo(dtype).max if dtype.startswith(("u", "i")) else 1
        noise = np.random.default_rng(1).random((HEIGHT, WIDTH, channels))
        if extra == "assocalpha":
            noise[..., :-1] *= noise[..., -1:]
        samples = (noise * top).astype(dtype)
        samples = samples[..., 0] if channels == 1 else samples
        data = save_tiff(samples, extra, planes, photometric=photometric, **STORAGE[storage])
        try:
            pixels = decode(data)
        except BadImage as error:
            assert error.reason == UNSUPPORTED, (dtype, photometric, channels, extra, planes, error)
            continue
        read += 1
        if photometric == "separated":
            continue  # Ink by ink, and of a profile: what it should look like is not a formula.
        expected = expect(data, extra)
        expected = 255 - expected if photometric == "miniswhite" else expected
        assert np.abs(pixels - expected).max() <= TOLERANCE, (dtype, photometric, channels, extra)
    assert read >= 20


def change_tag(data: bytes, tag: int, value: int) -> bytes:
    """Overwrites a tag's only value, in a little-endian file."""
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        at = file.pages[0].tags[tag].valueoffset  # type: ignore[union-attr]
    return data[:at] + bytes([value]) + data[at + 1 :]


def test_twelve_bits_are_refused():
    data = save_tiff(draw("uint16", 1, None)[..., 0], photometric="minisblack")
    with pytest.raises(BadImage, match=r"TIFF of \(12,\) bits.*convert it") as caught:
        prepare_image(change_tag(data, 258, 12), AS_IS)
    assert caught.value.reason == UNSUPPORTED


@pytest.mark.parametrize("compression", [1, 5, 8, 32946, 32773])
def test_all_compressions_that_are_said_to_be_read_are(compression):
    deep = (zoo.PATTERN * 257.0).astype(np.uint16)
    settings = [cv2.IMWRITE_TIFF_COMPRESSION, compression]
    data = cv2.imencode(".tiff", deep[:, :, ::-1], settings)[1].tobytes()
    with Image.open(io.BytesIO(data)) as image:
        assert image.tag_v2[259] == compression
    image = prepare_image(data, AS_IS)
    assert image.encoded == zoo.PATTERN.tobytes()


def test_sixteen_bits_by_zstandard_are_refused_with_a_way_out():
    deep = Image.fromarray(draw("uint16", 1, None)[..., 0])
    with pytest.raises(BadImage, match=r"compression 50000; convert .* tiffcp -p contig") as caught:
        prepare_image(zoo.save(deep, "TIFF", compression="zstd"), AS_IS)
    assert caught.value.reason == UNSUPPORTED


@pytest.mark.parametrize("orientation", range(1, 9))
def test_deep_images_are_turned_upright(orientation):
    deep = (zoo.store_rotated(orientation) * 257.0).astype(np.uint16)
    tag = (274, "H", 1, orientation, True)
    data = save_tiff(deep, photometric="rgb", extratags=[tag])
    image = prepare_image(data, AS_IS)
    assert (image.encoded, image.orientation) == (zoo.PATTERN.tobytes(), orientation)
    assert (image.height, image.width) == zoo.PATTERN.shape[:2]


@pytest.mark.parametrize("dtype, extra", [("uint16", None), ("uint8", "unassalpha")])
def test_planes_that_no_decoder_reads_are_refused_with_a_way_out(dtype, extra):
    data = save_tiff(draw(dtype, 4 if extra else 3, extra), extra, planes=True, photometric="rgb")
    with pytest.raises(BadImage, match=r"of separate planes; .* tiffcp -p contig") as caught:
        prepare_image(data, AS_IS)
    assert caught.value.reason == UNSUPPORTED


def test_a_first_image_that_is_a_thumbnail_is_refused():
    """A camera's raw file is a TIFF that starts with one."""
    data = save_tiff(zoo.PATTERN, photometric="rgb", subfiletype=1)
    with pytest.raises(BadImage, match="the TIFF's first image is a thumbnail") as caught:
        prepare_image(data, AS_IS)
    assert caught.value.reason == UNSUPPORTED


@pytest.mark.parametrize(
    ("tag", "value", "reason", "message"),
    [
        (278, 20, CORRUPT, "4 strips or tiles, but its size needs 2"),
        (257, 60, CORRUPT, "4 strips or tiles, but its size needs 5"),
        (256, 57, TRUNCATED, "a strip or tile has fewer bytes"),
    ],
    ids=["rows", "height", "width"],
)
def test_what_lay_in_memory_is_never_taken_for_pixels(tag, value, reason, message):
    samples = draw("uint16", 3, None)
    data = save_tiff(samples, photometric="rgb", rowsperstrip=13)
    with pytest.raises(BadImage, match=message) as caught:
        prepare_image(change_tag(data, tag, value), AS_IS)
    assert caught.value.reason == reason


def test_a_profile_that_says_it_is_a_text_is_noted():
    data = save_tiff(
        zoo.PATTERN, photometric="rgb", extratags=[(34675, "s", 0, "no profile", True)]
    )
    image = prepare_image(data, AS_IS)
    assert (image.notes, image.encoded) == (("icc_broken",), zoo.PATTERN.tobytes())
