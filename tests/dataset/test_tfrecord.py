"""tf.Examples of any writer: packed or not, in any order, with unknown fields, or damaged."""

import io

import hypothesis
import pytest
from hypothesis import given, strategies
from hypothesis import strategies as st

from image_pipeline.components.dataset.examples import parse_example
from image_pipeline.components.dataset.tfrecord import CorruptRecord, frame, read_records, unframe
from tests.data_set_files import encode_example, encode_feature, field, varint

pytestmark = pytest.mark.unit


def test_tensorflow_reads_what_is_framed(tmp_path):
    import tensorflow as tf

    records = [b"", b"a", b"b" * 1000]
    (tmp_path / "file").write_bytes(b"".join(map(frame, records)))
    assert list(tf.data.TFRecordDataset(str(tmp_path / "file")).as_numpy_iterator()) == records


@given(st.lists(st.binary(max_size=100)))
def test_reading_gives_what_was_written(records):
    assert list(read_records(io.BytesIO(b"".join(map(frame, records))))) == records


@given(st.data())
def test_a_flipped_bit_is_found_in_its_record(data):
    records = [b"first", b"second", b"third"]
    content = bytearray(b"".join(map(frame, records)))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    starts = [len(b"".join(map(frame, records[:n]))) for n in range(1, 4)]
    damaged = next(n for n, end in enumerate(starts) if bit // 8 < end)
    with pytest.raises(CorruptRecord, match=f"record {damaged}:"):
        list(read_records(io.BytesIO(bytes(content))))


@pytest.mark.parametrize("cut", [1, 4, 5, 17])
def test_a_cut_file_is_found(cut):
    content = frame(b"first") + frame(b"second")
    with pytest.raises(CorruptRecord, match=r"record 1: .* cut off"):
        list(read_records(io.BytesIO(content[:-cut])))


@given(st.binary(max_size=50), st.data())
def test_unframing_gives_the_data_and_finds_any_flipped_bit(record, data):
    framed = bytearray(frame(record))
    assert unframe(bytes(framed)) == record
    bit = data.draw(st.integers(0, 8 * len(framed) - 1))
    framed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptRecord, match="length field" if bit < 96 else "its data or"):
        unframe(bytes(framed))


def test_a_frame_of_another_length_is_refused():
    with pytest.raises(CorruptRecord, match="says 5 bytes, but there are 6"):
        unframe(frame(b"first") + b"x")
    with pytest.raises(CorruptRecord, match="length field"):
        unframe(b"short")


FEATURES = {
    "text": [b"one", b"", b"three" * 100],
    "floats": [0.5, -2.0],
    "ints": [0, -1, 2**62, -(2**63), 300],
    "one": [7],
    "none": [],
}


def _read(data):
    found = parse_example(data, 0, len(data))
    return {
        name: [data[slice(*v)] for v in feature.values]
        if feature.kind == "string"
        else feature.values
        for name, feature in found.items()
    }


@pytest.mark.parametrize("packed", [True, False])
def test_all_values_are_found(packed):
    assert _read(encode_example(FEATURES, packed)) == FEATURES


def test_kinds_are_told():
    data = encode_example(FEATURES)
    kinds = {name: feature.kind for name, feature in parse_example(data, 0, len(data)).items()}
    assert kinds == {
        **{"text": "string", "floats": "float", "ints": "int", "one": "int", "none": "string"}
    }


def test_a_part_of_a_file_is_read_where_it_is():
    data = encode_example({"a": b"xyz"})
    (at, end) = parse_example(b"before" + data + b"behind", 6, 6 + len(data))["a"].values[0]
    assert (b"before" + data)[at:end] == b"xyz"


def test_a_sequence_example_is_named():
    lists = field(1, field(1, b"images") + field(2, field(1, encode_feature([b"a"]))))
    for context in (b"", field(1, field(1, field(1, b"n") + field(2, encode_feature([5]))))):
        with pytest.raises(ValueError, match=r"a tf.SequenceExample, .* a tf.Example for each"):
            _read(context + field(2, lists))


def test_values_may_precede_their_key_and_fields_be_unknown():
    entry = field(2, field(3, field(1, varint(5)))) + field(1, b"n") + field(9, b"?")
    example = varint(15 << 3) + varint(1) + field(1, field(1, entry)) + field(2, b"lists")
    assert _read(example + varint(7 << 3 | 5) + b"1234") == {"n": [5]}


def test_the_last_of_equal_names_counts():
    assert _read(encode_example({"a": 1}) + encode_example({"a": 2})) == {"a": [2]}


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x05abc",  # cut off
        b"\x0b",  # a group, which there is no more
        b"\xff" * 11,  # a number without an end
        b"\x0a",
        encode_example({"a": 1})[:-1],
        field(1, field(1, field(1, b"\xff"))),  # a key that is not text
        field(1, field(1, field(1, b"a") + field(2, field(2, field(1, b"123"))))),  # 3 bytes
    ],
)
def test_what_is_none_is_said_to_be_none(data):
    with pytest.raises(ValueError, match=r"."):
        parse_example(data, 0, len(data))


@hypothesis.given(strategies.data())
def test_damage_gives_values_or_a_value_error(data):
    example = bytearray(encode_example(FEATURES))
    for _ in range(data.draw(strategies.integers(1, 4))):
        example[data.draw(strategies.integers(0, len(example) - 1))] = data.draw(
            strategies.integers(0, 255)
        )
    try:
        parse_example(bytes(example), 0, len(example))
    except ValueError:
        return
