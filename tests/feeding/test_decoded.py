import numpy as np
import pytest
import tensorflow as tf

from components import record
from components.errors import UserError
from components.feeding import parse
from components.feeding.decoded import DecodedRecords, decode_record
from components.feeding.index import read_index
from components.feeding.stored import StoredRecords
from tests import shards
from tests.drawings import draw_smooth

pytestmark = pytest.mark.unit


def pixels_of(serialized, channels):
    features = parse.parse_record(tf.constant(serialized), record.COLUMNS)
    return parse.decode_record(features, channels).numpy()


@pytest.mark.parametrize("image_format", ["jpeg", "png", "raw"])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_pixels_are_those_that_tensorflow_decodes(image_format, channels):
    # Odd sides, so that the colour of a JPEG is upsampled at its borders too.
    image = draw_smooth(4, 61, 83)[..., :channels]
    noise = np.random.default_rng(2).integers(0, 30, image.shape, np.uint8)
    example = shards.make_example(image // 2 + noise, "cat", image_format)
    decoded = decode_record(example)
    np.testing.assert_array_equal(pixels_of(decoded, channels), pixels_of(example, channels))
    before, after = record.decode_example(example), record.decode_example(decoded)
    assert after[record.FORMAT] == b"raw"
    changed = {record.FORMAT, record.IMAGE}
    assert all(after[key] == before[key] for key in before.keys() - changed)


@pytest.mark.beam
def test_each_record_is_read_and_decoded_once(train_shards, monkeypatch):
    index = read_index(train_shards)
    stored = StoredRecords(index)
    expected = [decode_record(stored.read(row)) for row in (2, 0, 2)]
    reads = []

    def read(self, row, verify):
        reads.append((row, verify))
        return expected[0] if row == 2 else expected[1]

    monkeypatch.setattr(StoredRecords, "read", read)
    records = DecodedRecords(index)
    assert [records.read(row, verify=True) for row in (2, 0, 2)] == expected
    assert reads == [(2, True), (0, True)]


@pytest.mark.beam
def test_an_image_that_cannot_be_decoded_is_named(train_shards, monkeypatch):
    index = read_index(train_shards)
    values = record.decode_example(StoredRecords(index).read(1))
    broken = record.encode_example(values | {record.IMAGE: b"\x89PNG nothing"})
    monkeypatch.setattr(StoredRecords, "read", lambda *_: broken)
    with pytest.raises(UserError, match=r"record 1 of .* is damaged: its image cannot be decoded"):
        DecodedRecords(index).read(1)
