import google_crc32c
import pytest

from image_pipeline.components.ingest.sealed import read_sealed, sum_file, write_sealed

pytestmark = pytest.mark.unit


def test_a_value_is_read_as_it_was_written(tmp_path):
    for value in ({"a": [1, "ü"]}, [], None):
        write_sealed(str(tmp_path / "mark.json"), value)
        assert read_sealed(str(tmp_path / "mark.json")) == value


def test_any_damage_is_as_good_as_no_file(tmp_path):
    path = tmp_path / "mark.json"
    assert read_sealed(str(path)) is None
    write_sealed(str(path), {"count": 8})
    content = path.read_bytes()
    damaged = [content[:length] for length in range(len(content))]
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    damaged += [b'{"count": 8}', content + b" "]
    for each in damaged:
        path.write_bytes(each)
        assert read_sealed(str(path)) is None, each


def test_a_file_is_summed_and_a_missing_one_is_empty(tmp_path):
    (tmp_path / "a").write_bytes(b"aa")
    assert sum_file(str(tmp_path / "a")) == google_crc32c.value(b"aa")
    assert sum_file(str(tmp_path / "gone")) == google_crc32c.value(b"")
