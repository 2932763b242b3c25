"""Contents are found in files as they are and in base64, wherever they begin, and only whole."""

import base64
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.dataset.held_bytes import (
    BytesFinder,
    describe_content,
    describe_text,
    is_packed,
    list_files,
)

pytestmark = pytest.mark.unit

BLOCK = 8 * 2**20
FORMS = {
    "as it is": lambda content, before: bytes(before) + content,
    "base64": lambda content, before: base64.b64encode(bytes(before) + content),
    "base64 of the web": lambda content, before: base64.urlsafe_b64encode(bytes(before) + content),
}


def make(size, seed=0):
    """Bytes of which 64 have `+` and `/` in base64, too."""
    return np.random.default_rng(seed).bytes(size)


def find(path, as_stored=False, **contents):
    finder = BytesFinder((name, describe_content(data)) for name, data in contents.items())
    return finder.find(str(path), as_stored)


@given(
    size=st.integers(16, 400),
    before=st.integers(0, 40),
    form=st.sampled_from([*FORMS]),
    seed=st.integers(0, 1000),
)
def test_a_content_is_found_wherever_it_begins(tmp_path_factory, size, before, form, seed):
    path = tmp_path_factory.getbasetemp() / "held"
    content = make(size, seed)
    path.write_bytes(FORMS[form](content, before) + make(30, seed + 1))
    assert find(path, this=content, other=make(size, seed + 2)) == {"this"}


@pytest.mark.parametrize("start", [BLOCK - 300, BLOCK - 65, BLOCK - 64, BLOCK - 1, BLOCK])
def test_a_content_between_two_blocks_is_found(tmp_path, start):
    content = make(300)
    (tmp_path / "held").write_bytes(bytes(start) + content)
    assert find(tmp_path / "held", this=content) == {"this"}


@pytest.mark.parametrize("start", [BLOCK - 399, BLOCK - 1])
def test_a_window_of_any_length_is_found(tmp_path, start):
    texts = {"this": "é" * 200, "other": "é" * 199 + "??"}
    (tmp_path / "held").write_bytes(bytes(start) + texts["this"].encode())
    for name, text in texts.items():
        found = BytesFinder([(name, describe_text(text))]).find(str(tmp_path / "held"))
        assert found == ({"this"} if name == "this" else set())


def test_only_what_is_whole_is_found(tmp_path):
    content = make(5000)
    (tmp_path / "half").write_bytes(content[:2500] + make(2500, 1))
    assert find(tmp_path / "half", this=content) == set()
    (tmp_path / "stripped").write_bytes(make(20, 1) + content[60:])  # Of what was said before it.
    assert find(tmp_path / "stripped", this=content) == {"this"}


def test_two_pictures_with_the_same_tables_are_distinguished(tmp_path):
    tables = make(600)
    one, other = tables + make(200, 1), tables + make(200, 2)
    (tmp_path / "held").write_bytes(one)
    assert find(tmp_path / "held", one=one, other=other) == {"one"}


@pytest.mark.parametrize("start", [0, 1000, BLOCK - 700, BLOCK - 1])
def test_of_a_plain_picture_the_hash_decides_where_contents_are_as_they_are(tmp_path, start):
    tables, plain = make(600), bytes(200)
    one, other = tables + b"1" + plain, tables + b"2" + plain
    (tmp_path / "shard").write_bytes(bytes(start) + other + make(50, 1) + tables + one)
    for name, content in {"one": one, "other": other}.items():
        assert find(tmp_path / "shard", **{name: content}) == {name}
        assert find(tmp_path / "shard", True, **{name: content}) == {name}
    (tmp_path / "shard").write_bytes(bytes(start) + other + tables)
    assert find(tmp_path / "shard", one=one) == {"one"}
    assert find(tmp_path / "shard", True, one=one) == set()


def test_what_is_too_short_or_plain_is_not_sought(tmp_path):
    plain = [bytes(1000), make(15), bytes(range(7)) * 100]
    assert [describe_content(each).windows for each in plain] == [(), (), ()]
    (tmp_path / "held").write_bytes(b"".join(plain))
    assert find(tmp_path / "held", a=plain[0], b=plain[1], c=plain[2]) == set()
    framed = bytes(500) + make(200) + bytes(500)
    (tmp_path / "black").write_bytes(bytes(3000))
    assert describe_content(framed).windows and find(tmp_path / "black", this=framed) == set()


def test_what_is_compressed_is_told_by_how_it_begins(tmp_path):
    import gzip
    import zipfile

    (tmp_path / "a.gz").write_bytes(gzip.compress(make(100)))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("a", make(100))
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert [name for name in sorted(os.listdir(tmp_path)) if is_packed(str(tmp_path / name))] == [
        "a.gz",
        "a.npz",
    ]


def test_each_file_is_listed_once_and_no_link(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"")
    (tmp_path / "a" / "link").symlink_to(tmp_path / "a" / "b" / "file")
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "a" / "pipe")
    folders = [tmp_path / "a", tmp_path, tmp_path / "loop" / "a" / "b"]
    assert list_files(map(str, folders)) == [str(tmp_path / "a" / "b" / "file")]
