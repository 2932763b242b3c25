import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.images.jpeg_holes import read_scans
from tests.images import zoo

pytestmark = pytest.mark.unit


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
