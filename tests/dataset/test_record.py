import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.dataset import record

pytestmark = pytest.mark.unit

COLUMNS = (
    record.Column("name", "bytes"),
    record.Column("count", "int64"),
    record.Column("boxes", "float32", is_list=True),
    record.Column("ids", "int64", is_list=True),
    record.Column("mask", "bytes", is_list=True),
)


@given(
    name=st.binary(max_size=300),
    count=st.integers(-(2**63), 2**63 - 1),
    boxes=st.lists(st.floats(width=32, allow_nan=False), max_size=5),
    ids=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
    mask=st.lists(st.binary(max_size=5), max_size=3),
)
def test_protobuf_reads_what_was_encoded(name, count, boxes, ids, mask):
    values = {"name": name, "count": count, "boxes": boxes, "ids": ids, "mask": mask}
    features = tf.train.Example.FromString(record.encode_example(values, COLUMNS)).features.feature
    assert features["name"].bytes_list.value == [name]
    assert features["count"].int64_list.value == [count]
    assert features["boxes"].float_list.value == boxes
    assert features["ids"].int64_list.value == ids
    assert features["mask"].bytes_list.value == mask


@given(
    name=st.binary(max_size=300),
    count=st.integers(-(2**63), 2**63 - 1),
    boxes=st.lists(st.floats(width=32, allow_nan=False), max_size=5),
    ids=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
    mask=st.lists(st.binary(max_size=5), max_size=3),
)
def test_decoding_gives_what_was_encoded(name, count, boxes, ids, mask):
    values = {"name": name, "count": count, "boxes": boxes, "ids": ids, "mask": mask}
    assert record.decode_example(record.encode_example(values, COLUMNS), COLUMNS) == values


@given(st.binary(max_size=60), st.integers(0, 60))
def test_what_is_no_record_is_refused(noise, cut):
    values = {"name": b"n", "count": 1, "boxes": [1.0], "ids": [2, 3], "mask": [b"payload"]}
    encoded = record.encode_example(values, COLUMNS)
    for data in (noise, encoded[:cut], encoded + b"\x08\x01"):
        with pytest.raises(ValueError):
            record.decode_example(data, COLUMNS)


def test_decoding_names_missing_and_unknown_features():
    encoded = record.encode_example({"a": b"xyz"}, [record.Column("a", "bytes")])
    with pytest.raises(ValueError, match="'a' is not expected"):
        record.decode_example(encoded, [record.Column("b", "bytes")])
    with pytest.raises(ValueError, match=r"\['b'\] are missing"):
        columns = [record.Column("a", "bytes"), record.Column("b", "bytes")]
        record.decode_example(encoded, columns)


def test_one_column_encodes_to_known_bytes():
    encoded = record.encode_example({"a": b"xyz"}, [record.Column("a", "bytes")])
    # Example{Features{entry{key "a", value Feature{bytes_list{"xyz"}}}}}
    assert encoded == b"\x0a\x0e\x0a\x0c\x0a\x01a\x12\x07\x0a\x05\x0a\x03xyz"


def test_last_columns_payload_ends_the_record():
    values = {"name": b"n", "count": 1, "boxes": [], "ids": [], "mask": [b"payload"]}
    assert record.encode_example(values, COLUMNS).endswith(b"payload")


def test_columns_list_every_key_once_and_the_image_last():
    keys = [column.key for column in record.COLUMNS]
    assert len(set(keys)) == len(keys) == 10
    assert keys[-1] == "image/encoded"


@pytest.mark.parametrize("values", [{}, {"a": b"", "b": b""}])
def test_missing_and_unknown_features_are_named(values):
    wrong = "a" if not values else "b"
    with pytest.raises(KeyError, match=rf"only one has \['{wrong}'\]"):
        record.encode_example(values, [record.Column("a", "bytes")])


def test_equal_files_at_two_paths_are_two_records():
    content = bytes(32)
    assert record.make_record_id(content, b"a.png").hex() == "36101f604ed1ce6ddca764e40a1b2774"
    assert record.make_record_id(content, b"b.png") != record.make_record_id(content, b"a.png")
