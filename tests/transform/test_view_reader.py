"""The analysis's reader, against the one that training and evaluation read by."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.transform import view_reader
from image_pipeline.components.transform.pixel_sums import PixelSums
from image_pipeline.components.transform.record_sample import keep_records
from image_pipeline.components.transform.view_reader import Wanted, read_views
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
    feeding = FeedingOptions(batch_size=COUNT, source="streaming")
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
    np.testing.assert_array_equal(np.concatenate([batch.sums for batch in batches]), expected)


def test_images_that_nobody_looks_at_are_not_decoded(shard, monkeypatch):
    monkeypatch.delattr(view_reader, "view_image")
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
