"""A source that somebody else writes: their package, their mistakes, and the records it gives."""

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources.own_source import OWN_SOURCE, OwnSource
from image_pipeline.components.sources.references import Annotations, ImageRef

pytestmark = pytest.mark.unit

MODULE = """
import numpy as np
from image_pipeline import BadImage, ImageRef, Annotations, UserError

class Photos:
    def __init__(self, text="none"):
        self.text = text
    def list(self):
        yield ImageRef("a.png", 3, 7, annotations=Annotations("photos:1", label=self.text))
        if self.text == "fails":
            raise KeyError("gone")
        if self.text == "exits":
            raise SystemExit("no photos")
        if self.text == "wrong":
            yield "b.png"
    def read(self, ref, most_bytes):
        answers = {"bad": BadImage("corrupt", "it is cut"), "lost": FileNotFoundError("x")}
        if ref.path in answers:
            raise answers[ref.path]
        answers = {"array": np.zeros((2, 3), np.uint8), "text": "abc", "view": bytearray(b"xyz")}
        answers |= {"objects": np.array([None])}
        return answers.get(ref.path, b"abcdef")

def refuse(text):
    raise UserError("the database is closed; open it.")

class Nothing:
    list = None

class Answers:
    read = None.__eq__
    def __init__(self, text):
        self.text = text
    def list(self):
        return eval(self.text)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    name = f"photos_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def read(source, path, most_bytes=100):
    return source.read(ImageRef(path, 1, 0), most_bytes)


def test_what_it_lists_and_reads_is_passed_on(module):
    source = OwnSource(f"source:{module}:Photos:s3:x")
    assert OWN_SOURCE.matches(source.root)
    assert list(source.list()) == [
        ImageRef("a.png", 3, 7, annotations=Annotations("photos:1", label="s3:x"))
    ]
    assert read(source, "a.png") == b"abcdef" and read(source, "a.png", 2) == b"ab"
    assert next(iter(OwnSource(f"source:{module}:Photos").list())).annotations.label == "none"


def test_an_array_becomes_a_file_of_numpys(module):
    data = read(OwnSource(f"source:{module}:Photos"), "array", 10**6)
    assert data.startswith(b"\x93NUMPY") and data.endswith(bytes(6))
    assert b"'shape': (2, 3)" in data
    with pytest.raises(BadImage, match="an array of Python objects"):
        read(OwnSource(f"source:{module}:Photos"), "objects")


def test_its_own_reports_of_bad_images_pass(module):
    source = OwnSource(f"source:{module}:Photos")
    with pytest.raises(BadImage, match="it is cut"):
        read(source, "bad")
    with pytest.raises(FileNotFoundError):
        read(source, "lost")
    with pytest.raises(UserError, match=r"^the database is closed; open it.$"):
        list(OwnSource(f"source:{module}:refuse:x").list())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Photos:fails", r"list\(\) of source:.*:Photos:fails fails: KeyError: 'gone'"),
        ("Photos:exits", r"list\(\) of source:.*:Photos:exits fails: SystemExit: no photos"),
        ("Photos:wrong", r"must give an ImageRef with a path, but gave 'b.png' \(number 1\)"),
        ("Answers:None", r"list\(\) of .* must yield, but gave NoneType; yield each"),
        ("Answers:[ImageRef('a', 1, 0), None]", r"with a path, but gave None \(number 1\)"),
        ("Answers:[ImageRef('', 1, 0)]", r"must give an ImageRef with a path"),
        ("Answers:[ImageRef(b'a', 1, 0)]", r"must give path as str, but gave b'a' \(number 0\)"),
        ("Answers:[ImageRef('a', None, 0)]", r"must give size_bytes as int, but gave None"),
        ("Answers:[ImageRef('a', 1, 1.7e9)]", r"must give modified_ns as int, but gave 17"),
        (
            "Answers:[ImageRef('a', 1, 0, annotations='x')]",
            r"must give annotations as .*Annotations.*None, but gave 'x'",
        ),
        (
            "Answers:[ImageRef('a', 1, 0, annotations=Annotations(7))]",
            r"must give row as str, but gave 7",
        ),
        (
            "Answers:[ImageRef('a', 1, 0, annotations=Annotations('', 7))]",
            r"label as str.*None, but gave 7",
        ),
        ("Nothing", r"must open an object with list\(\) and read.* type Nothing has no list"),
        ("Photo", r"has no 'Photo'.* Did you mean Photos"),
        ("", r"is given as source:MODULE:FUNCTION or source:MODULE:FUNCTION:TEXT, such as"),
        ("refuse", r"fails: TypeError: refuse\(\) missing 1 required positional argument"),
    ],
)
def test_its_mistakes_are_told_in_a_sentence(module, text, message):
    with pytest.raises(UserError, match=message):
        list(OwnSource(f"source:{module}:{text}").list())


def test_other_bytes_are_bytes(module):
    assert read(OwnSource(f"source:{module}:Photos"), "view", 2) == b"xy"


def test_what_it_reads_must_be_bytes_or_an_array(module):
    with pytest.raises(UserError, match=r"must give bytes or an array, but gave str for 'text'"):
        read(OwnSource(f"source:{module}:Photos"), "text")
