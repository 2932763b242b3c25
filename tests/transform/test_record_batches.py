"""The analysis's reader, against the one that training and evaluation read by."""

import concurrent.futures
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.transform import record_batches
from image_pipeline.components.transform.kept_sums import KEY
from image_pipeline.components.transform.record_batches import (
    PixelSums,
    Wanted,
    keep_records,
    read_views,
)
from image_pipeline.components.views.options import ViewOptions
from tests import shards

pytestmark = pytest.mark.unit

CUT = ViewOptions(height_px=8, width_px=10, crop_fraction=8 / 12)
RESIZED = ViewOptions(height_px=7, width_px=5)
GRAY = ViewOptions(height_px=8, width_px=8, channels=1)
COUNT = 29


@pytest.fixture(scope="module", params=["png", "jpeg", "raw"])
def shard(request, tmp_path_factory):
    examples = shards.make_examples(COUNT, image_format=request.param)
    return shards.write_shards(tmp_path_factory.mktemp(request.param), examples).replace(
        "*", "00000-of-00001"
    )


def _evaluated(shard, view):
    """Images and labels as evaluation reads them."""
    feeding = FeedingOptions(batch_size=COUNT)
    batches = input_fn([shard], view=view, feeding=feeding, transform_graph_dir=None, mode="eval")
    images, labels = next(iter(batches))
    return images.numpy(), labels.numpy()


@pytest.mark.parametrize("view", [CUT, RESIZED, GRAY], ids=["cut", "resized", "gray"])
def test_views_are_those_of_evaluation(shard, view):
    images, labels = _evaluated(shard, view)
    wanted = Wanted(columns=tuple(parse.columns_of([record.HEIGHT, record.FILENAME])))
    batches = list(read_views(shard, view, 8, wanted))
    assert [len(batch.images) for batch in batches] == [8, 8, 8, 5]
    np.testing.assert_array_equal(np.concatenate([batch.images for batch in batches]), images)
    assert [label for batch in batches for label in batch.labels] == labels.tolist()
    named = [name for batch in batches for name in batch.values[record.FILENAME]]
    assert named == [str(number).encode() for number in range(COUNT)]
    assert all(set(batch.values[record.HEIGHT].tolist()) == {12} for batch in batches)
    assert all(batch.sums is None for batch in batches)


@pytest.mark.parametrize("pixels", [True, False])
@pytest.mark.parametrize("batch_size", [1, 10, 100])
def test_sums_are_those_of_the_pixels(shard, pixels, batch_size):
    images, _ = _evaluated(shard, RESIZED)
    batches = list(read_views(shard, RESIZED, batch_size, Wanted(pixels=pixels, sums=True)))
    assert all((batch.images is not None) == pixels for batch in batches)
    sums = PixelSums(*images.shape[1:])
    expected = np.stack([sums.sum(image) for image in images])
    rows = np.concatenate([batch.sums for batch in batches])
    np.testing.assert_array_equal(rows[:, KEY:], expected)


def test_images_that_nobody_looks_at_are_not_decoded(shard, monkeypatch):
    monkeypatch.delattr(record_batches, "view_image")
    (batch,) = read_views(shard, CUT, 100, Wanted(pixels=False))
    assert len(batch.labels) == COUNT and batch.images is None and batch.sums is None


def test_a_fraction_is_chosen_by_the_ids(shard):
    wanted = Wanted(columns=tuple(parse.columns_of([record.SOURCE_ID])), pixels=False)
    (whole,) = read_views(shard, CUT, 100, wanted)
    ids = whole.values[record.SOURCE_ID]
    kept = keep_records(tf.constant(ids), 0.4).numpy()
    (part,) = read_views(shard, CUT, 100, wanted, fraction=0.4)
    assert 0 < kept.sum() < COUNT
    assert part.values[record.SOURCE_ID].tolist() == ids[kept].tolist()


def test_a_fraction_without_a_record_has_no_batch(shard):
    assert list(read_views(shard, CUT, 100, fraction=1e-9)) == []


def _with_bytes(folder, change):
    """A shard of one PNG's record whose image is changed."""
    example = tf.train.Example.FromString(shards.make_examples(1)[0])
    (encoded,) = example.features.feature[record.IMAGE].bytes_list.value
    example.features.feature[record.IMAGE].bytes_list.value[0] = change(encoded)
    shards.write_shards(folder, [example.SerializeToString()])
    return str(folder / "data_tfrecord-00000-of-00001")


def test_a_damaged_image_is_named(tmp_path):
    shard = _with_bytes(tmp_path, lambda encoded: encoded[:20])
    with pytest.raises(UserError, match=r"the record with the id '[0-9a-f]{32}' is damaged: its "):
        list(read_views(shard, CUT, 4))


def test_a_damaged_shard_is_named(tmp_path):
    shards.write_shards(tmp_path, shards.make_examples(3))
    shard = tmp_path / "data_tfrecord-00000-of-00001"
    shards.flip_bit(str(shard), shard.stat().st_size - 20)
    with pytest.raises(UserError, match=f"{shard} is damaged: record 2: its data is damaged"):
        list(read_views(str(shard), CUT, 2))


def _without(key):
    example = tf.train.Example.FromString(shards.make_examples(1)[0])
    del example.features.feature[key]
    return example.SerializeToString()


@pytest.mark.parametrize(
    ("serialized", "said"),
    [
        (b"no example", "has a record that ingest does not write"),
        (_without(record.LABEL), f"0 values of {record.LABEL}, not one"),
        (_without(record.HEIGHT), "it lacks an image, or its size"),
    ],
    ids=["not-an-example", "no-label", "no-height"],
)
def test_a_foreign_record_is_refused(tmp_path, serialized, said):
    pattern = shards.write_shards(tmp_path, [serialized])
    shard = pattern.replace("*", "00000-of-00001")
    with pytest.raises(UserError, match=f"{shard} has a record .*") as caught:
        list(read_views(shard, CUT, 2))
    assert said in str(caught.value)


def test_a_shard_that_ends_early_is_named(tmp_path):
    shards.write_shards(tmp_path, shards.make_examples(3))
    shard = pathlib.Path(tmp_path, "data_tfrecord-00000-of-00001")
    shard.write_bytes(shard.read_bytes()[:-30])
    with pytest.raises(UserError, match=f"{shard} is damaged: record 2: its data is damaged or"):
        list(read_views(str(shard), CUT, 2, Wanted(pixels=False)))


def test_batches_that_memory_does_not_hold_are_refused(shard):
    huge = ViewOptions(height_px=100_000, width_px=100_000)
    with pytest.raises(UserError, match=r"lower transform\.batch_size, or the view's size"):
        next(read_views(shard, huge, 1000))
    assert next(read_views(shard, huge, 1000, Wanted(pixels=False))).images is None


@pytest.mark.parametrize(
    ("pixels", "sizes"), [(True, [3, 3, 1]), (False, [7])], ids=["pixels", "sums"]
)
def test_batches_have_no_more_pixels_than_arrow_counts(tmp_path, monkeypatch, pixels, sizes):
    monkeypatch.setattr(record_batches, "_MOST_VALUES", 3 * 8 * 10 * 3 + 5)
    pattern = shards.write_shards(tmp_path, shards.make_examples(7))
    shard = pattern.replace("*", "00000-of-00001")
    wanted = Wanted(pixels=pixels, sums=True)
    batches = record_batches.read_view_batches(
        shard, ViewOptions(height_px=8, width_px=10), 64, wanted, 1
    )
    assert [batch.num_rows for batch in batches] == sizes


def exact_sums(image):
    """The same by Python's integers."""
    pixels = image.reshape(-1, image.shape[-1]).tolist()
    channels = list(zip(*pixels, strict=True))
    squares = [sum(value**2 for value in channel) for channel in channels]
    return [len(pixels), *map(sum, channels), *squares]


SHAPES = arrays.array_shapes(min_dims=3, max_dims=3, max_side=9)


@given(arrays.arrays(np.uint8, SHAPES))
def test_sums_are_those_of_integers(image):
    found = PixelSums(*image.shape).sum(image)
    assert found.dtype == np.int64 and len(found) == 1 + 2 * image.shape[-1]
    assert found.tolist() == exact_sums(image)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 30), max_size=5))
def test_sums_of_parts_add_up_whatever_the_parts_are(seed, cuts):
    image = np.random.default_rng(seed).integers(0, 256, (31, 7, 3), np.uint8)
    parts = [part for part in np.split(image, sorted(cuts)) if len(part)]
    added = sum(PixelSums(*part.shape).sum(part) for part in parts)
    assert added.tolist() == exact_sums(image)


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 255])
def test_any_number_of_channels(channels):
    image = np.random.default_rng(channels).integers(0, 256, (6, 5, channels), np.uint8)
    assert PixelSums(*image.shape).sum(image).tolist() == exact_sums(image)


def test_the_greatest_sums_of_a_large_image():
    # Squares add up to 1.6e12, which no 32-bit integer and no float32 holds.
    image = np.full((5000, 5000, 3), 255, np.uint8)
    found = PixelSums(*image.shape).sum(image).tolist()
    assert found == [25_000_000, *[25_000_000 * 255] * 3, *[25_000_000 * 255**2] * 3]


@pytest.mark.parametrize("seed", range(3))
def test_large_images_lose_nothing(seed):
    generator = np.random.default_rng(seed)
    image = generator.integers(generator.integers(0, 250), 256, (1500, 2001, 3), np.uint8)
    wide = image.reshape(-1, 3).astype(np.int64)
    expected = [len(wide), *wide.sum(axis=0), *np.square(wide).sum(axis=0)]
    assert PixelSums(*image.shape).sum(image).tolist() == expected


def test_a_part_of_an_image_need_not_be_copied():
    whole = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    part = whole[3:11, 4:9]
    assert PixelSums(8, 5, 3).sum(part).tolist() == exact_sums(part)


def test_threads_share_it():
    images = np.random.default_rng(1).integers(0, 256, (64, 40, 50, 3), np.uint8)
    sums = PixelSums(40, 50, 3)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = [each.tolist() for each in pool.map(sums.sum, images)]
    assert found == [exact_sums(image) for image in images]
