"""What of a table's bytes is text."""

import datetime
import decimal

import pytest

from image_pipeline.components.sources.rows import guess_shape, is_text, plain

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (b"", True),
        ("Café\n\tÅ 🐈".encode(), True),
        ("Café.jpg".encode("latin-1"), True),
        ("é".encode("latin-1") * 256, False),  # as bright pixels are
        (b"a\0b", False),
        (bytes(range(256)), False),
    ],
)
def test_text_has_no_controls_and_is_utf_8_if_it_is_long(data, is_one):
    assert is_text(data) is is_one


def test_cells_are_what_json_could_have():
    cells = [b"\xff", datetime.date(2024, 1, 2), decimal.Decimal("1.50"), 3]
    assert [plain(cell) for cell in cells] == ["\udcff", "2024-01-02", "1.50", 3]


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        (784, (28, 28, 1)),
        (3072, (32, 32, 3)),
        (1024, (32, 32, 1)),
        (64, (8, 8, 1)),
        (192, (8, 8, 3)),
        (49, None),
        (147, None),
        (783, None),
        (3071, None),
        (0, None),
    ],
)
def test_a_square_is_likely(values, shape):
    assert guess_shape(values) == shape
