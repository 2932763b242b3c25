import functools

import numpy as np
import pytest

from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.dataset.tfrecord import HEADER_BYTES
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.images import HeldImages, load_image
from tests.drawings import draw_smooth, encode_png, write_folder
from tests.ingest_runs import ingest
from tests.shards import flip_bit

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def mixed_sizes(tmp_path_factory):
    """Shards of images of different sizes."""
    root = tmp_path_factory.mktemp("images")
    images = write_folder(root / "images", per_class=4)
    for number in range(4):
        wide = encode_png(draw_smooth(number, 9, 21))
        (images / "cat" / f"wide{number}.png").write_bytes(wide)
    ingest(images, root / "data", shards=1)
    return sorted(map(str, (root / "data").glob("Split-train/*")))


@pytest.mark.parametrize("channels", [1, 3])
def test_held_images_are_the_stored_ones(train_shards, mixed_sizes, channels):
    for paths in (train_shards, mixed_sizes):
        index = read_index(paths)
        stored = StoredRecords(index)
        held = HeldImages(stored, channels)
        assert (held.shape is None) == (paths is mixed_sizes)
        for row in [*range(len(index)), *range(len(index))]:
            expected = load_image(stored, row, channels)
            assert expected.shape == (index.height[row], index.width[row], channels)
            np.testing.assert_array_equal(held.load(row), expected)


def test_each_record_is_read_and_decoded_once(train_shards, monkeypatch):
    read, reads = StoredRecords.read, []
    monkeypatch.setattr(
        StoredRecords,
        "read",
        lambda self, at, verify: reads.append((at.row, verify)) or read(self, at),
    )
    held = HeldImages(StoredRecords(read_index(train_shards)), 3)
    for row in (2, 0, 2, 0):
        held.load(row, verify=True)
    assert reads == [(2, True), (0, True)]


def test_images_of_one_size_are_taken_at_once_when_all_are_decoded(train_shards):
    held = HeldImages(StoredRecords(read_index(train_shards)), 3)
    rows = np.array([3, 1, 3])
    assert not held.can_take(rows, held.shape)
    images = np.stack([held.load(row) for row in rows.tolist()])
    assert held.can_take(rows, held.shape) and not held.can_take(rows, (7, 7, 3))
    assert not held.can_take(np.array([0]), held.shape)
    out = np.empty_like(images)
    held.take(rows, out)
    np.testing.assert_array_equal(out, images)


def test_images_of_several_sizes_are_not_taken_at_once(mixed_sizes):
    held = HeldImages(StoredRecords(read_index(mixed_sizes)), 3)
    shape = held.load(0).shape
    assert not held.can_take(np.array([0]), shape)


def test_an_image_that_cannot_be_decoded_is_named(copied):
    index = read_index(copied)
    end = int(index.offset[1]) + HEADER_BYTES + int(index.length[1])
    flip_bit(copied[0], end - int(index.image_length[1]))
    stored = StoredRecords(index)
    for load in (HeldImages(stored, 3).load, functools.partial(load_image, stored, channels=3)):
        with pytest.raises(UserError, match=r"record 1 of .* is damaged: its image cannot be deco"):
            load(1)
        with pytest.raises(UserError, match=r"record 1 of .* is damaged: its data or the data's"):
            load(1, verify=True)
