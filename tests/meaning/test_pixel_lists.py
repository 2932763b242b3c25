"""Records whose images are values alone ask for their shape, and say which it may be."""

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.pixel_lists import propose_shape
from tests.data_set_files import write_tfrecord
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.unit

IMAGE = b"\x00\xff" * 392
ASKED = "state its shape by ingest.pixel_shape=[28, 28, 1], as `image-pipeline init` does; if it is"


def _write(tmp_path, *examples):
    write_tfrecord(tmp_path / "a.tfrecord", examples)
    return str(tmp_path / "a.tfrecord")


def _refusal(path, **options):
    with pytest.raises(UserError) as error:
        complete_options(path, IngestOptions(**options))
    return str(error.value)


@pytest.mark.parametrize("values", [[0.5] * 784, [7] * 784, IMAGE])
@pytest.mark.parametrize("columns", [{}, {"image": "x"}])
def test_the_refusal_names_the_option_with_a_plausible_value(tmp_path, values, columns):
    path = _write(tmp_path, *[{"x": values, "label": 1}] * 3)
    said = _refusal(path, columns=columns)
    assert said.startswith(f"No feature of {path!r} is the file of an image, or pixels whose shape")
    assert f"If the 784 values of 'x' are an image, {ASKED} another feature" in said


def test_where_no_square_is_likely_the_shape_has_names(tmp_path):
    path = _write(tmp_path, {"x": [0.5] * 600})
    assert "by ingest.pixel_shape=[HEIGHT, WIDTH, CHANNELS]; if it is another" in _refusal(path)


def test_another_shape_than_that_of_the_values_is_refused(tmp_path):
    path = _write(tmp_path, {"x": [0.5] * 784})
    assert _refusal(path, pixel_shape=(28, 28, 3)) == (
        f"ingest.pixel_shape=[28, 28, 3] are 2,352 values, but 'x' of {path!r} has 784; state the "
        "shape that it has, such as [28, 28, 1]."
    )


def test_records_without_anything_like_an_image_are_as_before(tmp_path):
    path = _write(tmp_path, {"age": 3, "town": b"Ulm", "few": [1.0] * 36})
    assert _refusal(path).startswith(f"No column of {path!r} looks like an image path.")
    assert propose_shape(path, IngestOptions()) == IngestOptions()


@pytest.mark.parametrize(
    "image", [{"image": encode_png(draw(0))}, {"photo": b"a.jpg"}, {"path": b"a"}]
)
def test_lists_beside_an_image_are_columns(tmp_path, image):
    path = _write(tmp_path, {"embedding": [0.5] * 64} | image)
    options = IngestOptions(columns={"image": next(iter(image))})
    assert complete_options(path, options).column_types["embedding"] == "floats"
    assert propose_shape(path, IngestOptions()).pixel_shape is None


@pytest.mark.parametrize(
    ("values", "shape"), [([0.5] * 784, (28, 28, 1)), (b"\x00" * 3072, (32, 32, 3))]
)
def test_the_likely_shape_is_proposed_and_said(tmp_path, values, shape):
    options = propose_shape(_write(tmp_path, *[{"x": values, "y": 1}] * 3), IngestOptions())
    assert options.pixel_shape == shape
    (said,) = options.understood
    assert f"values of 'x' are taken as {' × '.join(map(str, shape))} (height" in said


def test_of_several_that_are_likely_none_is_proposed(tmp_path):
    path = _write(tmp_path, {"x": [0.5] * 784, "y": [0.5] * 64, "z": [0.5] * 65})
    assert propose_shape(path, IngestOptions()).pixel_shape is None
    assert "784 values of 'x'" in _refusal(path)


def test_most_records_decide(tmp_path):
    short = {"x": [0.5] * 783}
    path = _write(tmp_path, short, *[{"x": [0.5] * 784}] * 3, short)
    assert propose_shape(path, IngestOptions()).pixel_shape == (28, 28, 1)
