"""References as JSON: what the names of chunks depend on."""

import dataclasses
import datetime
import decimal
import json
import pickle

import pytest

from image_pipeline.components.labels.boxes import BoxAnnotation
from image_pipeline.components.sources.file_names import find_matching
from image_pipeline.components.sources.references import Annotations, ImageRef, list_fields
from image_pipeline.components.sources.rows import Location, guess_shape, is_text, plain
from image_pipeline.components.sources.understood import collect, noticed, understood

pytestmark = pytest.mark.unit

BOXES = ([1, 2], [BoxAnnotation((0.0, 0.0, 2.0, 2.0), "a")])


@pytest.mark.parametrize(
    "ref",
    [
        ImageRef("a.jpg", 3, 4, stamp=(5, 6)),
        ImageRef("a.jpg", 3, 4, "bad_row", "why", Annotations("t.csv:2", "cat", None, "train")),
        ImageRef(
            "a.jpg", 3, 4, annotations=Annotations("t.csv:2", further=(1, 0.5, "x", ["y"], BOXES))
        ),
        ImageRef("a", 3, 4, mask=ImageRef("b", 1, 2, location=Location("f", "array", 7, 1, "m"))),
    ],
)
def test_fields_are_those_of_astuple(ref):
    assert json.dumps(list_fields(ref)) == json.dumps(dataclasses.astuple(ref))


def test_a_pickled_reference_is_the_same():
    location = Location("a.tar", "bytes", 512, 3)
    ref = ImageRef("a.png", 3, 7, annotations=Annotations("t.csv:2"), location=location)
    assert pickle.loads(pickle.dumps(ref)) == ref


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


def test_sentences_are_collected_in_order_each_once():
    understood("nobody listens")
    with collect() as said:
        understood("val/ is taken as the split eval")
        understood("the label is the column 'emotion'")
        understood("val/ is taken as the split eval")
        with collect() as inner:
            understood("of another source")
            noticed("d.jpg is named by no row")
    understood("nobody listens any more")
    assert said.understood == [
        "val/ is taken as the split eval",
        "the label is the column 'emotion'",
    ]
    assert inner.understood == ["of another source"]
    assert said.noticed == inner.noticed == ["d.jpg is named by no row"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.tar", ["a-9.tar", "a-10.tar", "b.tar"]),
        ("a-{9..10}.tar", ["a-9.tar", "a-10.tar"]),
        ("{b,a-9}.tar", ["a-9.tar", "b.tar"]),
        ("{a-*,b}.t?r", ["a-9.tar", "a-10.tar", "b.tar"]),
        ("{008..010}.tar", ["008.tar", "009.tar", "010.tar"]),  # Named, though not there.
        ("a-{1..0}.tar", []),
        ("x{SPAN}.tar", ["x{SPAN}.tar"]),
        ("gone.tar", ["gone.tar"]),
        ("*.zip", []),
    ],
)
def test_patterns(tmp_path, pattern, names):
    for name in ("a-9.tar", "a-10.tar", "b.tar"):
        (tmp_path / name).touch()
    (tmp_path / "folder.tar").mkdir()
    assert find_matching(f"{tmp_path}/{pattern}") == sorted(f"{tmp_path}/{name}" for name in names)


def test_a_file_may_be_called_as_a_pattern_is(tmp_path):
    for name in ("c[1].tar", "c1.tar"):
        (tmp_path / name).touch()
    assert find_matching(f"{tmp_path}/c[1].tar") == [f"{tmp_path}/c[1].tar"]
