"""Batches of photos that ingest stores in tiles, beside the same ones decoded as a whole."""

import functools

import numpy as np
import pytest

from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.dataset.tfrecord import HEADER_BYTES
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.images import HeldImages, load_image
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views import fast_decode
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import draw_smooth, encode_png, write_folder, write_photos
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


PHOTOS = 24
VIEW = ViewOptions(height_px=48, width_px=48, crop_fraction=0.3)  # Of 160 px, a cut.


@pytest.fixture(scope="module")
def tiled(tmp_path_factory):
    """A data set of JPEGs, whose shorter side is 160 px."""
    root = tmp_path_factory.mktemp("tiled")
    images, prepare = write_photos(root / "images", PHOTOS), {"encoding": "jpeg", "size_px": 160}
    ingest(images, root / "data", prepare=prepare, splits={"train": 1.0})
    return sorted(map(str, (root / "data").glob("Split-train/*")))


def read(paths, mode, view, **feeding):
    options = {"batch_size": 8, "hold_decoded": False, "augment": ["random_resized_crop"]}
    batches = input_fn(
        paths,
        view=view,
        feeding=FeedingOptions.model_validate(options | feeding),
        transform_graph_dir=None,
        mode=mode,
        epochs=2 if mode == "train" else 1,
    )
    return [tuple(each.numpy() for each in batch) for batch in batches]


@pytest.mark.parametrize(
    ("mode", "view"),
    [("train", VIEW), ("eval", VIEW), ("eval", VIEW.model_copy(update={"crop_fraction": 0.5}))],
)
def test_batches_are_those_of_images_that_are_decoded_whole(
    tiled, cut_parts, monkeypatch, mode, view
):
    found = read(tiled, mode, view)
    used = sum(part is not None for part in cut_parts)
    monkeypatch.setattr(fast_decode, "_has_few_cores", lambda: False)
    expected = read(tiled, mode, view)
    assert len(found) == len(expected) == PHOTOS // 8 * (2 if mode == "train" else 1)
    for batch, other in zip(found, expected, strict=True):
        for values, others in zip(batch, other, strict=True):
            np.testing.assert_array_equal(values, others)
    # Resized views need all of an image.
    least = {0.3: PHOTOS // 2, 0.5: 0}[view.crop_fraction]
    assert used >= least and (least or not cut_parts)
