"""Images that records hold as their values alone, read by the shape that is stated."""

import io

import numpy as np
import pydantic
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.source_kinds import read_rows
from tests.data_set_files import PACKINGS, encode_example, write_tfrecord
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.unit

SHAPE = (8, 10, 3)
FLOATS = np.random.default_rng(0).normal(size=(5, *SHAPE)).astype(np.float32)
LEVELS = np.random.default_rng(1).integers(0, 256, (5, *SHAPE)).astype(np.uint8)


def _list(array):
    return array.ravel().tolist()


def _open(path, **options):
    options = complete_options(str(path), IngestOptions(**{"pixel_shape": SHAPE} | options))
    return open_source(str(path), options), options


def _read(path, **options):
    """The array or the problem of each image."""
    source, _ = _open(path, **options)
    found = []
    for ref in source.list():
        try:
            data = source.read(ref, 10**9) if ref.problem is None else b""
        except BadImage as error:
            found.append(error.message)
            continue
        assert [source.read(ref, most) for most in (4, 200) if data] == [
            data[:most] for most in (4, 200) if data
        ]
        found.append(np.load(io.BytesIO(data)) if data else ref.message)
    return found


def _check(found, arrays):
    for array, expected in zip(found, arrays, strict=True):
        assert (array.dtype, array.shape) == (expected.dtype, SHAPE)
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("ending", PACKINGS)
@pytest.mark.parametrize("arrays", [FLOATS, LEVELS], ids=["floats", "ints"])
def test_lists_of_numbers_are_read_exactly(tmp_path, arrays, ending, packed):
    path = tmp_path / f"a.tfrecord{ending}"
    examples = ({"a": 1, "pixels": _list(each), "z": b"z"} for each in arrays)
    write_tfrecord(path, (encode_example(each, packed) for each in examples))
    _check(_read(path), arrays)


def test_bytes_are_levels_or_what_the_format_says(tmp_path):
    write_tfrecord(tmp_path / "a.tfrecord", [{"raw": each.tobytes()} for each in LEVELS])
    _check(_read(tmp_path / "a.tfrecord"), LEVELS)
    typed = [{"raw": each.tobytes(), "image/format": b"raw_float32"} for each in FLOATS]
    write_tfrecord(tmp_path / "b.tfrecord", typed)
    _check(_read(tmp_path / "b.tfrecord"), FLOATS)


def test_a_label_beside_them_is_found(tmp_path):
    rows = [{"image_floats": _list(each), "image_class": n} for n, each in enumerate(FLOATS)]
    write_tfrecord(tmp_path / "a.tfrecord", rows)
    source, options = _open(tmp_path / "a.tfrecord")
    assert options.columns == {"image": "image_floats", "path": None, "label": "image_class"}
    assert [ref.annotations.label for ref in source.list()] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize(
    ("value", "found"),
    [(_list(LEVELS[0])[:-1], "239 values"), (LEVELS[0].tobytes() + b"x", "241 bytes")],
)
def test_one_of_another_length_is_quarantined_with_the_reason(tmp_path, value, found, place):
    whole = [_list(a) if isinstance(value, list) else a.tobytes() for a in LEVELS]
    whole[place] = value
    write_tfrecord(tmp_path / "a.tfrecord", [{"x": each} for each in whole])
    read = _read(tmp_path / "a.tfrecord")
    assert read.pop(place) == (
        f"a.tfrecord:{place + 1}: the column 'x': it has {found}, but ingest.pixel_shape="
        "[8, 10, 3] are 240 values"
    )
    _check(read, np.delete(LEVELS, place, 0))


def test_whole_numbers_that_are_no_levels_cost_their_image(tmp_path):
    lists = [_list(each) for each in LEVELS]
    lists[1][7:9], lists[2][7:9] = (0, 256), (-1, 255)
    write_tfrecord(tmp_path / "a.tfrecord", [{"x": each} for each in lists])
    read = _read(tmp_path / "a.tfrecord")
    assert "are from 0 to 256, but" in read[1] and "are from -1 to 255, but" in read[2]
    _check([read[0], *read[3:]], LEVELS[[0, 3, 4]])


def test_a_record_that_was_changed_is_damaged(tmp_path):
    starts = write_tfrecord(tmp_path / "a.tfrecord", [{"x": _list(each)} for each in FLOATS])
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    data[starts[2] + 300] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(data)
    read = _read(tmp_path / "a.tfrecord")
    assert "is damaged" in read.pop(2)
    _check(read, np.delete(FLOATS, 2, 0))


def test_the_named_column_counts_beside_files_of_images(tmp_path):
    rows = [{"floats": _list(each), "thumbnail": encode_png(draw(0))} for each in FLOATS]
    write_tfrecord(tmp_path / "a.tfrecord", rows)
    _check(_read(tmp_path / "a.tfrecord", columns={"image": "floats"}), FLOATS)


def test_an_empty_list_is_no_image(tmp_path):
    write_tfrecord(tmp_path / "a.tfrecord", [{"x": _list(FLOATS[0])}, {"x": []}])
    (_, row) = read_rows(str(tmp_path / "a.tfrecord"), {}, SHAPE)
    assert row.cells == {"x": None}


def test_other_sources_say_their_shape(tmp_path):
    (tmp_path / "a.txt").write_text("a.png red\n")
    told = r"ingest\.pixel_shape is for TFRecords and CSV, but .* leave it"
    with pytest.raises(UserError, match=told):
        _open(tmp_path / "a.txt")
    with pytest.raises(UserError, match=r"but '.*' is a folder; leave it out"):
        _open(tmp_path)


@pytest.mark.parametrize("shape", ["28x28", [28], [28, 28, 1, 1], [0, 28], [28.5, 28], [True, 28]])
def test_a_shape_is_two_or_three_whole_numbers(shape):
    with pytest.raises(pydantic.ValidationError, match=r"\[height, width\] or .* such as \[28, 28"):
        IngestOptions(pixel_shape=shape)
