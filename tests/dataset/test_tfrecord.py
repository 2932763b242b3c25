import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.dataset.tfrecord import CorruptRecord, frame, read_records, unframe

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
