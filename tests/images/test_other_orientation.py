import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.images.color import note_other_orientation
from tests.images import zoo

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("orientation", range(1, 9))
def test_both_places_are_read(orientation: int):
    raw = zoo.make_raw_profile(zoo.make_exif(orientation))
    notes = note_other_orientation({"xmp": zoo.make_xmp(orientation), "Raw profile type exif": raw})
    expected = (f"raw_exif_orientation:{orientation}", f"xmp_orientation:{orientation}")
    assert notes == (expected if orientation > 1 else ())


@pytest.mark.parametrize(
    "xmp",
    [
        b"<tiff:Orientation>3</tiff:Orientation>",
        b"tiff:Orientation='3'",
        '<rdf:Description tiff:Orientation = "3"/>',
    ],
)
def test_every_way_to_write_it_in_xmp(xmp: bytes | str):
    assert note_other_orientation({"xmp": xmp}) == ("xmp_orientation:3",)


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"xmp": b'tiff:Orientation="12"'},
        {"xmp": b"no xmp"},
        {"xmp": 2**40},
        {"Raw profile type exif": "exif 3 zz"},
        {"Raw profile type exif": "\nexif\n 5\n0102030\n"},
        {"Raw profile type exif": zoo.make_raw_profile(b"Exif\0\0MM\0*")},
    ],
)
def test_nothing_is_made_of_nothing(info: dict):
    assert note_other_orientation(info) == ()


@given(st.text(max_size=80), st.binary(max_size=80))
def test_no_text_breaks_it(text: str, exif: bytes):
    note_other_orientation({"xmp": text, "Raw profile type exif": text})
    note_other_orientation({"xmp": exif, "Raw profile type exif": zoo.make_raw_profile(exif)})
