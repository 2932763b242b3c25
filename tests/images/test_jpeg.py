import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from image_pipeline.components.images.jpeg import read_plain_header

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
