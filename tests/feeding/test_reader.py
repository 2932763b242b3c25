"""Indexed records up to pixels: exact, resumable, the same on any number of workers."""

import collections
import itertools
import logging

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from image_pipeline.components.augment.options import FlipHorizontal, RandomResizedCrop
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import read_index, read_table
from image_pipeline.components.dataset.tfrecord import HEADER_BYTES
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.feeding import input_fn, parse
from image_pipeline.components.feeding.budget import Stage
from image_pipeline.components.feeding.input_fn import ImageBatches
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.reader import BatchReader
from image_pipeline.components.views.options import ViewOptions
from tests import graphs
from tests.drawings import write_folder
from tests.ingest_runs import ingest
from tests.shards import flip_bit
from tests.tiers import few

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=8)
CROPPED = (RandomResizedCrop(), FlipHorizontal())


def read(paths, mode="train", feeding=None, **arguments):
    """The batches, each a list of (pixels as bytes, label)."""
    feeding = FeedingOptions(**{"batch_size": 4, **(feeding or {})})
    batches = input_fn.input_fn(
        paths, view=VIEW, feeding=feeding, transform_graph_dir=None, mode=mode, **arguments
    )
    return [
        [(image.tobytes(), label) for image, label in zip(images, labels, strict=True)]
        for images, labels in batches.as_numpy_iterator()
    ]


def flat(batches):
    return list(itertools.chain(*batches))


def open_indexed(paths, training=True, seed=0, view=VIEW, **feeding):
    passes = Passes(mode="train" if training else "eval", seed=seed)
    return BatchReader(read_index(paths), view, FeedingOptions(**feeding), passes)


def drawn(paths, epoch, feeding=None, training=True, seed=0):
    """The rows of each batch of an epoch."""
    records = open_indexed(paths, training, seed, **(feeding or {}))
    return [records.draw_records(epoch, step).rows.tolist() for step in range(records.steps)]


@settings(max_examples=few())
@given(seed=st.integers(0, 2**31 - 1), batch_size=st.integers(1, 30), epoch=st.integers(0, 9))
def test_every_epoch_has_every_record_once(train_shards, seed, batch_size, epoch):
    batches = drawn(train_shards, epoch, {"batch_size": batch_size}, seed=seed)
    records = len(read_index(train_shards))
    assert sorted(flat(batches)) == list(range(records))
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)


def test_order_differs_between_epochs_and_seeds(train_shards):
    orders = [drawn(train_shards, epoch, seed=seed) for epoch in (0, 1) for seed in (0, 1)]
    assert len({str(order) for order in orders}) == 4


def test_evaluation_reads_in_the_index_s_order(train_shards):
    assert flat(drawn(train_shards, 0, training=False)) == list(
        range(len(read_index(train_shards)))
    )
    assert read(train_shards, "eval", seed=1) == read(train_shards, "eval", seed=2)


@pytest.mark.parametrize("feeding", [{}, {"balance": "uniform"}], ids=str)
def test_resuming_at_every_step_gives_what_would_have_followed(train_shards, feeding):
    options = {"feeding": feeding | {"batch_size": 6}, "seed": 3, "epochs": 2, "first_epoch": 1}
    whole = read(train_shards, **options)
    steps = len(whole) // 2
    assert steps == -(-len(read_index(train_shards)) // 6)
    for step in range(steps):
        assert read(train_shards, first_step=step, **options) == whole[step:]


@pytest.mark.parametrize("feeding", [{}, {"remainder": "pad"}, {"remainder": "drop"}], ids=str)
def test_workers_share_each_batch(train_shards, feeding):
    alone = read(train_shards, feeding=feeding, epochs=1)
    for workers in (1, 2, 4):
        shares = [
            read(train_shards, feeding=feeding, epochs=1, worker=worker, workers=workers)
            for worker in range(workers)
        ]
        # The small last batch may have no record for some; with drop and pad all take equal steps.
        uneven = feeding.get("remainder", "keep") == "keep"
        assert uneven or len({len(share) for share in shares}) == 1
        together = [flat(parts) for parts in itertools.zip_longest(*shares, fillvalue=[])]
        assert together == alone, workers


def test_the_last_batch_is_kept_dropped_or_padded(train_shards):
    records = len(read_index(train_shards))
    sizes = {
        remainder: [len(batch) for batch in read(train_shards, feeding={"remainder": remainder})]
        for remainder in ("keep", "drop", "pad")
    }
    full, rest = divmod(records, 4)
    assert rest
    assert sizes == {"keep": [4] * full + [rest], "drop": [4] * full, "pad": [4] * (full + 1)}
    padded = drawn(train_shards, 0, {"batch_size": 4, "remainder": "pad"})
    assert padded[-1][rest:] == padded[0][: 4 - rest]


def test_a_balanced_epoch_draws_classes_equally_and_other_pixels_each_time(train_shards):
    index = read_index(train_shards)
    feeding = {"balance": {"cat": 3, "dog": 1}, "augment": CROPPED}
    images = flat(read(train_shards, feeding=feeding))
    counts = collections.Counter(label for _, label in images)
    assert counts[b"cat"] == pytest.approx(len(index) * 3 / 4, abs=1)
    assert len(set(images)) == len(images)  # A record drawn twice is cropped again.


def test_balance_names_an_unknown_class(train_shards):
    weights = {"cat": 1, "dog": 1, "cow": 1}
    with pytest.raises(UserError, match=r"balance names 'cow', which no .* has; remove it"):
        read(train_shards, feeding={"balance": weights})


def test_data_sets_are_mixed_by_weight(train_shards, tmp_path):
    ingest(write_folder(tmp_path / "images", ("ant",), 12), tmp_path / "other", shards=2)
    others = sorted(map(str, (tmp_path / "other").glob("Split-train/*")))
    index = read_index([*train_shards, *others])
    first, second = index.roots
    feeding = {"mix": {first: 3, second: 1}, "augment": CROPPED}
    rows = flat(drawn([*train_shards, *others], 0, feeding))
    share = np.mean(index.data_set[rows] == 0)
    assert share == pytest.approx(3 / 4, abs=1 / len(rows))
    assert len(flat(read([*train_shards, *others], feeding=feeding))) == len(rows) == len(index)
    with pytest.raises(UserError, match=r"mix: every data set that is read needs .* Missing: \['"):
        read([*train_shards, *others], feeding={"mix": {first: 1}})
    with pytest.raises(UserError, match=r"mix names 'x', which no selected record has; remove it"):
        read([*train_shards, *others], feeding={"mix": {first: 1, second: 1, "x": 1}})


def test_many_views_are_all_there_and_apart(train_shards):
    feeding = {
        "many_views": {"crops": 2, "mirror": True},
        "augment": [{"op": "random_resized_crop", "area": (0.5, 1.0)}, "flip_horizontal"],
        "batch_size": 4,
    }
    records = len(read_index(train_shards))
    images = flat(read(train_shards, feeding=feeding))
    assert len(images) == 4 * records
    arrays = [np.frombuffer(pixels, np.uint8).reshape(8, 8, 3) for pixels, _ in images]
    known = {array.tobytes() for array in arrays}
    assert all(array[:, ::-1].tobytes() in known for array in arrays)
    for batch in drawn(train_shards, 0, feeding):
        assert len(set(batch)) == len(batch)


def test_selection_by_condition_fraction_and_fold(train_shards):
    labels = {label for _, label in flat(read(train_shards, feeding=_where('label == "cat"')))}
    assert labels == {b"cat"}
    half = drawn(train_shards, 0, {"select": {"fraction": 0.5}})
    assert 0 < len(flat(half)) < len(read_index(train_shards))
    folds = [
        [
            sorted(flat(drawn(train_shards, 0, {"select": {"fold": (k, 3)}}, training)))
            for k in range(3)
        ]
        for training in (True, False)
    ]
    everything = list(range(len(read_index(train_shards))))
    assert sorted(flat(folds[1])) == everything
    assert all(sorted(a + b) == everything for a, b in zip(*folds, strict=True))


@pytest.mark.parametrize("training", [True, False])
def test_marked_images_are_left_out_of_what_is_selected(train_shards, training):
    sources = read_table(train_shards, ["source"])["source"].to_pylist()
    marked = [sources[row] for row in (0, 5)]
    left = sorted(flat(drawn(train_shards, 0, {"select": {"leave_out": marked}}, training)))
    assert left == [row for row in range(len(sources)) if row not in (0, 5)]
    both = {"select": {"leave_out": marked, "where": 'label == "cat"'}}
    cats = [row for row in left if sources[row].startswith("cat/")]
    assert sorted(flat(drawn(train_shards, 0, both, training))) == cats


def test_a_selection_of_nothing_is_an_error(train_shards):
    with pytest.raises(UserError, match=r"at least one record must be selected, but .*; widen it"):
        read(train_shards, feeding=_where("height > 1000"))


def test_a_long_list_is_not_spelled_out_in_a_message(train_shards):
    sources = read_table(train_shards, ["source"])["source"].to_pylist()
    sources += [f"{number}.png" for number in range(5000)]
    with pytest.raises(UserError, match=r"feeding.select \(leave_out=\(.*\.\.\.\)\)") as raised:
        read(train_shards, feeding={"select": {"leave_out": sources}})
    assert len(str(raised.value)) < 1000


def _where(condition):
    return {"select": {"where": condition}}


def test_the_eval_subset_is_always_the_same(train_shards):
    feeding = {"eval_subset": {"records": 6, "seed": 1}}
    first = flat(drawn(train_shards, 0, feeding, training=False))
    assert len(first) == 6
    assert flat(drawn(train_shards, 7, feeding, training=False, seed=9)) == first
    classes = read_index(train_shards).label[first].tolist()
    assert sorted(classes) == [0] * 3 + [1] * 3
    other = {"eval_subset": {"records": 6, "seed": 2}}
    assert flat(drawn(train_shards, 0, other, training=False)) != first
    assert len(flat(drawn(train_shards, 0, feeding))) == len(read_index(train_shards))


def test_evaluation_never_resets_training(train_shards):
    feeding = FeedingOptions(batch_size=4)
    common = {"view": VIEW, "feeding": feeding, "transform_graph_dir": None}
    training = iter(input_fn.input_fn(train_shards, mode="train", epochs=2, **common))
    expected = read(train_shards, epochs=2)
    evaluation = input_fn.input_fn(train_shards, mode="eval", **common)
    for batch in expected:
        images, _ = next(training)
        assert [i.tobytes() for i in images.numpy()] == [pixels for pixels, _ in batch]
        assert sum(len(labels) for _, labels in evaluation) == len(read_index(train_shards))


@pytest.mark.parametrize("verify", ["first_epoch", "always"])
def test_a_damaged_record_stops_with_its_name(damaged, verify):
    with pytest.raises(tf.errors.OpError) as caught:
        read(damaged, "eval", feeding={"verify": verify})
    message = str(find_user_error(caught.value))
    assert message.startswith(f"record 2 of {damaged[0]} (source '")
    assert "its data or the data's checksum is damaged; run ingest again" in message


def test_a_damaged_record_can_be_skipped_and_is_counted(damaged, caplog):
    records = len(read_index(damaged))
    feeding = {"verify": "always", "bad_records": "skip"}
    with caplog.at_level(logging.WARNING):
        batches = read(damaged, "eval", feeding=feeding)
    assert sum(map(len, batches)) == records - 1
    assert f"Skipped record number 1: record 2 of {damaged[0]}" in caplog.text


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_damaged_record_is_skipped_with_its_columns(damaged, mode):
    feeding = FeedingOptions(batch_size=4, bad_records="skip")
    columns = parse.columns_of((record.FILENAME,))
    reader = ImageBatches(damaged, VIEW, feeding, Passes(mode=mode), columns)
    batches = list(reader.read().as_numpy_iterator())
    index = read_index(damaged)
    names = [name for batch in batches for name in batch[record.FILENAME]]
    assert len(set(names)) == len(index) - 1
    assert len(names) == len(index) - (mode == "eval")
    assert all(len(batch["image"]) == len(batch[record.FILENAME]) for batch in batches)


def test_a_batch_of_damaged_records_alone_is_left_out_of_evaluation(damaged):
    feeding = {"batch_size": 1, "bad_records": "skip"}
    sizes = [len(batch) for batch in read(damaged, "eval", feeding=feeding)]
    assert sizes == [1] * (len(read_index(damaged)) - 1)


@pytest.mark.parametrize(("step", "batch_size"), [("mixup", 4), ("cutmix", 8), ("mixup", 12)])
def test_workers_mix_what_one_would_mix(train_shards, step, batch_size):
    graph = graphs.shared_graph_dir()

    def batches(worker=0, workers=1):
        data = input_fn.input_fn(
            train_shards,
            view=VIEW,
            feeding=FeedingOptions(batch_size=batch_size, augment=[step]),
            transform_graph_dir=graph,
            mode="train",
            worker=worker,
            workers=workers,
        )
        return [(x.numpy(), y.numpy()) for x, y in data]

    shares = zip(batches(0, 2), batches(1, 2), strict=True)
    together = [[np.concatenate(parts) for parts in zip(*pair, strict=True)] for pair in shares]
    for (images, labels), (same_images, same_labels) in zip(batches(), together, strict=True):
        np.testing.assert_array_equal(images, same_images)
        np.testing.assert_array_equal(labels, same_labels)


@pytest.mark.whole
@pytest.mark.parametrize("augment", [(), CROPPED], ids=["centre", "cropped"])
@pytest.mark.parametrize("hold_decoded", [True, False])
def test_an_image_of_another_size_than_is_noted_is_named(
    train_shards, monkeypatch, augment, hold_decoded
):
    index = read_index(train_shards)
    take = index.take
    index.take = lambda rows: (found := take(rows))._replace(height=found.height + (rows == 2))
    monkeypatch.setattr("image_pipeline.components.feeding.records.find_index", lambda paths: index)
    feeding = {"augment": augment, "hold_decoded": hold_decoded}
    with pytest.raises(tf.errors.OpError) as caught:
        read(train_shards, feeding=feeding)
    assert "record 2 of" in str(find_user_error(caught.value))
    assert "has 8 x 10 pixels, not the 9 x 10 in its record" in str(caught.value)
    skipping = read(train_shards, feeding=feeding | {"bad_records": "skip"})
    assert sum(map(len, skipping)) == len(index)


@pytest.mark.parametrize("remainder", ["keep", "drop", "pad"])
def test_a_skipped_record_shifts_no_batch_of_training(damaged, train_shards, remainder):
    feeding = {"verify": "always", "bad_records": "skip", "remainder": remainder}
    whole = read(train_shards, feeding={"remainder": remainder}, epochs=2)
    skipping = read(damaged, feeding=feeding, epochs=2)
    assert [len(batch) for batch in skipping] == [len(batch) for batch in whole]
    changed = [len(set(a) - set(b)) for a, b in zip(whole, skipping, strict=True)]
    assert sum(changed) in (1, 2)  # Once an epoch, unless it is dropped.
    assert read(damaged, feeding=feeding, epochs=2, first_step=3) == skipping[3:]
    shares = [read(damaged, feeding=feeding, epochs=2, worker=w, workers=2) for w in (0, 1)]
    assert [flat(parts) for parts in zip(*shares, strict=True)] == skipping


def test_a_batch_without_any_record_is_an_error(damaged):
    records = open_indexed(damaged, batch_size=1, verify="always", bad_records="skip")
    with pytest.raises(UserError, match=r"must leave a record of every batch, but none of a batch"):
        for step in range(records.steps):
            records.read(0, step)


def test_padding_has_views_of_its_own(train_shards):
    for feeding in ({}, {"balance": "uniform"}):
        options = feeding | {"remainder": "pad", "augment": CROPPED, "batch_size": 16}
        images = flat(read(train_shards, feeding=options))
        assert len(images) == len(set(images)) == 32


def test_batches_that_two_views_would_share_are_refused(train_shards):
    views = {"many_views": {"crops": 2}, "augment": CROPPED}
    records = len(read_index(train_shards))
    fitting = records // 2 + 1
    assert open_indexed(train_shards, batch_size=fitting, **views).steps
    with pytest.raises(UserError, match=rf"at most {fitting} for {records} images, got {records};"):
        open_indexed(train_shards, batch_size=records, **views)


def test_only_the_first_epoch_is_verified_where_asked(damaged):
    records = open_indexed(damaged, False, verify="first_epoch", batch_size=1)
    flip_bit(damaged[0], int(records.index.offset[4]) + 30)  # In the text of a column: it decodes.
    for row in (2, 4):
        with pytest.raises(UserError, match=f"record {row} of"):
            records.read(0, row)
        assert records.read(1, row)["image"].shape == (1, 8, 8, 3)


def test_mirrored_strategy_and_keras_read_it(train_shards):
    feeding = FeedingOptions(batch_size=4, remainder="drop")
    devices = tf.config.list_logical_devices("CPU")
    strategy = tf.distribute.MirroredStrategy([device.name for device in devices][:2])

    def make(context):
        return input_fn.input_fn(
            train_shards,
            view=VIEW,
            feeding=feeding,
            transform_graph_dir=None,
            mode="train",
            worker=context.input_pipeline_id,
            workers=context.num_input_pipelines,
        )

    distributed = strategy.distribute_datasets_from_function(make)
    assert sum(1 for _ in distributed) == len(read_index(train_shards)) // 4


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_images_held_decoded_are_the_same(train_shards, mode):
    feeding = {"augment": CROPPED}
    held = read(train_shards, mode, feeding, seed=2, epochs=2)
    assert held == read(train_shards, mode, feeding | {"hold_decoded": False}, seed=2, epochs=2)


@pytest.mark.parametrize("threads", [1, 5])
def test_any_number_of_threads_gives_the_same_order_and_pixels(train_shards, threads):
    feeding = FeedingOptions(batch_size=4, augment=CROPPED)
    batches = input_fn.input_fn(
        train_shards, view=VIEW, feeding=feeding, transform_graph_dir=None, mode="train", epochs=2
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    found = [
        [(image.tobytes(), label) for image, label in zip(images, labels, strict=True)]
        for images, labels in batches.with_options(options).as_numpy_iterator()
    ]
    assert found == read(train_shards, feeding={"augment": CROPPED}, epochs=2)


@pytest.mark.parametrize(
    ("feeding", "told"),
    [
        (
            {},
            "Reading 3 shards by their index, in any order: 0 MB of pixels, decoded once and held.",
        ),
        ({"hold_decoded": False}, "whenever they are read (feeding.hold_decoded=false)."),
    ],
)
def test_the_way_that_was_chosen_is_told_in_one_line(train_shards, caplog, feeding, told):
    with caplog.at_level(logging.INFO):
        read(train_shards, feeding=feeding)
    lines = [line for line in caplog.messages if "shards" in line]
    assert len(lines) == 1 and told in lines[0]


def test_images_are_held_decoded_where_they_fit(train_shards):
    def held(view=VIEW, others=(), **feeding):
        records = open_indexed(train_shards, view=view, **feeding)
        return [stage.size_bytes for stage in records.hold_decoded(list(others))]

    assert held() == [len(read_index(train_shards)) * 8 * 10 * 3]
    assert held(view=ViewOptions(height_px=8, width_px=8, channels=1)) == [held()[0] // 3]
    assert held(hold_decoded=False) == []
    assert held(others=[Stage("others", 10**15, "")]) == []


def test_a_damaged_image_is_named_without_checksums_too(copied):
    index = read_index(copied)
    end = int(index.offset[2]) + HEADER_BYTES + int(index.length[2])
    flip_bit(copied[0], end - int(index.image_length[2]))  # The first byte of what makes it a JPEG.
    with pytest.raises(tf.errors.OpError) as caught:
        read(copied, "eval", feeding={"verify": "none"})
    assert "record 2 of" in str(find_user_error(caught.value))
    assert "its image cannot be decoded" in str(caught.value)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_step_beyond_the_epoch_is_refused(train_shards, mode):
    steps = -(-len(read_index(train_shards)) // 4)
    with pytest.raises(UserError, match=rf"less than the {steps} batches .* got {steps}; go on"):
        read(train_shards, mode, first_step=steps)
    assert len(read(train_shards, mode, first_step=steps - 1)) > 0


@pytest.mark.parametrize("remainder", ["drop", "pad"])
def test_batches_of_one_size_say_so(train_shards, remainder):
    batches = input_fn.input_fn(
        train_shards,
        view=VIEW,
        feeding=FeedingOptions(batch_size=4, remainder=remainder),
        transform_graph_dir=None,
        mode="train",
    )
    assert [spec.shape.as_list() for spec in batches.element_spec] == [[4, 8, 8, 3], [4]]
