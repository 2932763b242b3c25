import os

import pydantic
import pytest

from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.options import parse_paths

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("content", "paths"),
    [
        (b"", ()),
        (b"b/2.png\na 1.png\n", ("a 1.png", "b/2.png")),
        (b"b\r\n\r\n\nb\na", ("a", "b")),
        (b"\xff.png\n" + "é.png".encode(), ("\\xff.png", "é.png")),
        (b" a \n", (" a ",)),
    ],
)
def test_a_line_is_a_path(content, paths):
    assert parse_paths(content) == paths


@pytest.mark.parametrize(
    "make",
    [
        lambda value: IngestOptions(leave_out=value).leave_out,
        lambda value: FeedingOptions(select={"leave_out": value}).select.leave_out,
    ],
)
def test_an_option_holds_the_paths_of_the_file_that_it_names(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "marks.txt").write_text("b.png\na.png\n")
    assert make("marks.txt") == make(os.path.join(tmp_path, "marks.txt")) == ("a.png", "b.png")
    assert make(["b.png", "a.png"]) == ("b.png", "a.png")
    with pytest.raises(pydantic.ValidationError, match=r"'gone.txt' cannot be read \(No such file"):
        make("gone.txt")
    with pytest.raises(pydantic.ValidationError, match="valid tuple"):
        make(7)


def test_options_that_are_passed_on_need_no_file(tmp_path):
    (tmp_path / "marks.txt").write_text("b.png\na.png\n")
    options = IngestOptions(leave_out=str(tmp_path / "marks.txt"))
    (tmp_path / "marks.txt").unlink()
    assert IngestOptions.model_validate_json(options.to_json()) == options
    assert IngestOptions.read_stored(options.stored_form()).leave_out == ("a.png", "b.png")
    assert "leave_out" not in IngestOptions().stored_form()
