import collections
import gc
import gzip
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.python.autograph.pyct import transpiler

from image_pipeline.components.augment.options import FlipHorizontal, RandomResizedCrop
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import graph as compiled_functions
from image_pipeline.components.feeding import input_fn
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views import graph as views
from image_pipeline.components.views.options import ViewOptions
from tests import graphs, shards
from tests.tiers import few

pytestmark = pytest.mark.unit

VIEW = ViewOptions(height_px=12, width_px=16)  # the size of the images, so views are their pixels
PLAIN = ()
CROPPED = (RandomResizedCrop(), FlipHorizontal())
RECORDS = 20


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """Twenty records in four shards; the class of record n is 'n'."""
    labels = [str(number) for number in range(RECORDS)]
    folder = tmp_path_factory.mktemp("data") / "Split-train"
    return shards.write_shards(folder, shards.make_examples(RECORDS, labels), 4)


def read(pattern, mode="train", view=VIEW, graph=None, feeding=None, augment=PLAIN, **arguments):
    """Runs the pipeline; gives its batches as numpy pairs."""
    feeding = FeedingOptions(**{"batch_size": 8, "augment": augment, **(feeding or {})})
    batches = input_fn.input_fn(
        [pattern], view=view, feeding=feeding, transform_graph_dir=graph, mode=mode, **arguments
    )
    return [(images.numpy(), labels.numpy()) for images, labels in batches]


def order(batches):
    return [int(label) for _, labels in batches for label in labels]


def images_by_record(batches):
    return {
        int(label): image
        for images, labels in batches
        for image, label in zip(images, labels, strict=True)
    }


@pytest.mark.parametrize("arguments", [{"mode": "eval"}, {"again": "same"}, {"epochs": 2}])
def test_tensorflows_own_seed_stays_as_it_is(train_shards, arguments):
    tf.random.set_seed(42)
    expected = tf.random.uniform([3]).numpy()
    tf.random.set_seed(42)
    for shard in train_shards:
        assert read(shard, **arguments)
    np.testing.assert_array_equal(tf.random.uniform([3]), expected)


def _kinds(dataset):
    inputs = [kind for each in dataset._inputs() for kind in _kinds(each)]
    return [type(dataset).__name__.strip("_"), *inputs]


@pytest.mark.parametrize(
    ("arguments", "has_function"),
    [
        ({"mode": "eval"}, False),
        ({"mode": "eval", "epochs": 2}, True),
        ({"again": "same"}, False),
        ({"again": "next"}, True),
    ],
)
def test_a_single_epoch_with_an_index_has_no_function_of_epochs(
    train_shards, arguments, has_function, monkeypatch
):
    made = []
    monkeypatch.setattr(input_fn, "keep_ready", lambda batches, _: made.append(batches) or batches)
    assert read(train_shards[0], **arguments)
    assert ("FlatMapDataset" in _kinds(made[0])) == has_function


def test_eval_reads_every_record_in_file_order_and_keeps_the_small_last_batch(pattern):
    batches = read(pattern, mode="eval")
    assert [len(labels) for _, labels in batches] == [8, 8, 4]
    assert order(batches) == [number for first in range(4) for number in range(first, RECORDS, 4)]
    for number, image in images_by_record(batches).items():
        np.testing.assert_array_equal(image, shards.draw_image(number))


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_no_tuner_runs_unless_one_is_asked_for(pattern, mode):
    batches = input_fn.input_fn(
        [pattern], view=VIEW, feeding=FeedingOptions(), transform_graph_dir=None, mode=mode
    )
    assert batches.options().autotune.enabled is False
    further = batches.map(lambda images, labels: labels, num_parallel_calls=tf.data.AUTOTUNE)
    assert further.options().autotune.enabled is False
    tuned = tf.data.Options()
    tuned.autotune.enabled = True
    assert further.with_options(tuned).options().autotune.enabled is True


def test_eval_ignores_augmentation_seed_and_remainder(pattern):
    plain = read(pattern, mode="eval")
    other = read(pattern, mode="eval", augment=CROPPED, seed=9, feeding={"remainder": "drop"})
    assert all(
        np.array_equal(a, b)
        for x, y in zip(plain, other, strict=True)
        for a, b in zip(x, y, strict=True)
    )


@pytest.mark.parametrize("augment", [None, ["random_resized_crop", "flip_horizontal"]])
def test_nothing_is_random_but_the_order_unless_it_is_named(pattern, augment, caplog):
    with caplog.at_level("INFO"):
        batches = read(pattern, augment=augment, seed=3)
    seen = images_by_record(batches)
    same = [np.array_equal(seen[n], shards.draw_image(n)) for n in range(RECORDS)]
    assert order(batches) != sorted(order(batches)) == list(range(RECORDS))
    assert all(same) if augment is None else not any(same)
    said = [each for each in caplog.messages if "names no random steps" in each]
    assert len(said) == (augment is None)


@settings(max_examples=few())
@given(seed=st.integers(0, 2**31 - 1), batch_size=st.integers(1, 25))
def test_every_epoch_has_every_record_once(pattern, seed, batch_size):
    batches = read(pattern, seed=seed, feeding={"batch_size": batch_size}, epochs=2)
    per_epoch = -(-RECORDS // batch_size)
    assert len(batches) == 2 * per_epoch
    for epoch in (batches[:per_epoch], batches[per_epoch:]):
        assert collections.Counter(order(epoch)) == collections.Counter(range(RECORDS))


def test_the_batches_are_a_function_of_seed_and_epoch(pattern):
    options = CROPPED
    tf.random.set_seed(1)
    first = read(pattern, seed=3, epochs=3, augment=options)
    tf.random.set_seed(2)  # somebody else's seed changes nothing
    again = read(pattern, seed=3, epochs=3, augment=options)
    resumed = read(pattern, seed=3, epochs=2, first_epoch=1, augment=options)
    for one, two in ((first, again), (first[3:], resumed)):
        for (images, labels), (same_images, same_labels) in zip(one, two, strict=True):
            np.testing.assert_array_equal(images, same_images)
            np.testing.assert_array_equal(labels, same_labels)


def test_order_differs_between_epochs_and_seeds(pattern):
    batches = read(pattern, epochs=2)
    orders = [order(batches[:3]), order(batches[3:]), order(read(pattern, seed=1))]
    assert len({tuple(numbers) for numbers in [*orders, range(RECORDS)]}) == 4


def test_views_differ_between_records_and_epochs(tmp_path):
    image = shards.draw_image(0)  # the same image under two ids
    examples = [shards.make_example(image, str(number), name=str(number)) for number in range(2)]
    pattern = shards.write_shards(tmp_path, examples)
    epochs = read(pattern, augment=(RandomResizedCrop(),), epochs=2)
    views_seen = [image for batch in epochs for image in images_by_record([batch]).values()]
    assert len(np.unique(np.stack(views_seen), axis=0)) == 4


def test_a_records_view_does_not_hang_on_how_records_are_read(pattern):
    options = CROPPED
    one = images_by_record(read(pattern, augment=options))
    other = images_by_record(read(pattern, augment=options, feeding={"batch_size": 3}))
    for number, image in one.items():
        np.testing.assert_array_equal(image, other[number])


def test_remainder_drop_leaves_out_the_small_batch(pattern):
    batches = read(pattern, feeding={"remainder": "drop"}, epochs=2)
    assert [len(labels) for _, labels in batches] == [8, 8, 8, 8]


def test_epochs_none_never_ends(pattern):
    batches = input_fn.input_fn(
        [pattern],
        view=VIEW,
        feeding=FeedingOptions(batch_size=8),
        transform_graph_dir=None,
        mode="train",
        epochs=None,
    )
    assert len(list(batches.take(10))) == 10


@pytest.mark.parametrize("channels", [1, 3])
def test_the_view_sets_the_shape(pattern, channels):
    view = ViewOptions(height_px=5, width_px=6, channels=channels)
    for mode in ("train", "eval"):
        images, _ = read(pattern, mode=mode, view=view, augment=CROPPED)[0]
        assert (images.shape, images.dtype) == ((8, 5, 6, channels), np.uint8)


@pytest.mark.parametrize("image_format", ["jpeg", "raw"])
def test_every_stored_format_is_read(tmp_path, image_format):
    labels = ["0", "1", "2"]
    examples = shards.make_examples(3, labels, image_format)
    pattern = shards.write_shards(tmp_path, examples)
    for number, image in images_by_record(read(pattern, mode="eval")).items():
        expected = shards.draw_image(number)
        if image_format == "jpeg":
            encoded = tf.constant(shards.encode_image(expected, "jpeg"))
            expected = views.decode_image(encoded, 3)
        np.testing.assert_array_equal(image, expected)
    assert len(read(pattern, augment=CROPPED)) == 1


def test_gzipped_shards_are_read_by_their_ending(pattern, tmp_path):
    for path in sorted(pathlib.Path(pattern).parent.iterdir()):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    expected = order(read(pattern, mode="eval"))
    feeding = {"cache_dir": str(tmp_path / "cache")}
    assert order(read(str(tmp_path / "*.gz"), mode="eval", feeding=feeding)) == expected
    plain = order(read(pattern))
    assert sorted(order(read(str(tmp_path / "*.gz"), feeding=feeding))) == sorted(plain)


@pytest.mark.beam
def test_the_transform_graph_is_applied_to_batches(tmp_path):
    examples = shards.make_examples(6, ["cat", "dog", "zebra"], height=8, width=8)
    pattern = shards.write_shards(tmp_path, examples)
    view = ViewOptions(height_px=8, width_px=8)
    batches = input_fn.input_fn(
        [pattern],
        view=view,
        feeding=FeedingOptions(batch_size=4),
        transform_graph_dir=graphs.shared_graph_dir(),
        mode="eval",
    )
    gc.collect()  # the vocabulary's table must live as long as the data set
    (images, labels), (_, last_labels) = [(x.numpy(), y.numpy()) for x, y in batches]
    assert (images.dtype, labels.dtype) == (np.float32, np.int64)
    expected = [shards.draw_image(number, 8, 8) / np.float32(255) for number in range(4)]
    np.testing.assert_allclose(images, expected, rtol=1e-6)
    assert [*labels, *last_labels] == [0, 1, -1, 0, 1, -1]  # the graph knows no zebra


@pytest.mark.beam
@pytest.mark.parametrize("compiled", [True, False])
def test_autograph_translates_nothing_of_ours(data_set, monkeypatch, compiled):
    """It would take more than half of the time to the first batch of a process."""
    graph = graphs.shared_graph_dir()
    translated = []
    transform = transpiler.PyToPy.transform_function

    def noted(self, function, context):
        translated.append(function)
        return transform(self, function, context)

    monkeypatch.setattr(transpiler.PyToPy, "transform_function", noted)
    monkeypatch.setattr(compiled_functions, "_COMPILED", {})
    feeding = {"compiled": compiled}
    view = ViewOptions(height_px=8, width_px=8)
    pattern = f"{data_set}/Split-train/*"
    assert read(pattern, "train", view, graph, feeding, CROPPED)
    assert translated == []
    assert read(pattern, "train", view, graph, feeding, [f"{__name__}.invert_if_dark"])
    assert {each.__name__ for each in translated} == {"invert_if_dark"}


def invert_if_dark(images, keys):
    """A step that asks `if` of a tensor, as AutoGraph allows."""
    if tf.reduce_mean(tf.cast(images, tf.float32)) < 127.5:
        images = 255 - images
    return images


@pytest.mark.parametrize("compiled", [True, False])
def test_a_users_step_may_ask_if_of_a_tensor(pattern, compiled):
    feeding = {"compiled": compiled, "batch_size": 1}
    plain = images_by_record(read(pattern, feeding=feeding))
    made = images_by_record(read(pattern, feeding=feeding, augment=[f"{__name__}.invert_if_dark"]))
    assert len({bool(image.mean() < 127.5) for image in plain.values()}) == 2
    for number, image in plain.items():
        expected = 255 - image if image.mean() < 127.5 else image
        np.testing.assert_array_equal(made[number], expected)


@pytest.mark.beam
@pytest.mark.parametrize("compiled", [True, False])
def test_whether_the_graph_is_compiled_is_an_option(tmp_path, monkeypatch, compiled):
    pattern = shards.write_shards(tmp_path, shards.make_examples(2, height=8, width=8))
    calls = []
    compile_pixels = TransformGraph.compile_pixels
    monkeypatch.setattr(
        TransformGraph, "compile_pixels", lambda graph: calls.append(graph) or compile_pixels(graph)
    )
    feeding = {"compiled": compiled, "batch_size": 2}
    view = ViewOptions(height_px=8, width_px=8)
    graph = graphs.shared_graph_dir()
    (batch,) = read(pattern, mode="eval", view=view, graph=graph, feeding=feeding)
    assert len(batch[0]) == 2 and bool(calls) == compiled


def test_an_unknown_mode_is_an_error(pattern):
    with pytest.raises(UserError, match="mode must be 'train' or 'eval', got 'test'"):
        read(pattern, mode="test")


def test_an_unknown_worker_is_an_error(pattern):
    with pytest.raises(UserError, match="worker must be from 0 to workers - 1, got 2 of 2"):
        read(pattern, worker=2, workers=2)


@pytest.mark.parametrize(
    ("batch_size", "remainder", "steps"),
    [(4, "keep", 5), (6, "keep", 4), (6, "drop", 3), (20, "drop", 1), (21, "keep", 1)],
)
def test_steps_are_counted_with_or_without_the_small_one(batch_size, remainder, steps, pattern):
    feeding = FeedingOptions(batch_size=batch_size, remainder=remainder)
    assert input_fn.steps_per_epoch([pattern], feeding, "train") == steps
    assert len(read(pattern, feeding=feeding.model_dump() | {"augment": PLAIN})) == steps


def test_an_epoch_without_a_batch_is_explained(pattern):
    feeding = FeedingOptions(batch_size=21, remainder="drop")
    with pytest.raises(UserError, match=r"epoch of 20 records has no whole batch of 21, and the"):
        input_fn.steps_per_epoch([pattern], feeding, "train")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"select": {"fraction": 0.5}}, "select"),
        ({"balance": "uniform", "balance_by": "site"}, "balance_by"),
        ({"eval_subset": {"records": 3}}, "eval_subset"),
    ],
)
def test_what_needs_ingests_index_says_so(pattern, options, named):
    told = rf"feeding\.{named} needs the index of a data set, but \S+00000-of-00004 has none"
    with pytest.raises(UserError, match=told):
        read(pattern, feeding=options)


@pytest.mark.parametrize(
    ("options", "length"),
    [
        ({"balance": "uniform"}, RECORDS),
        ({"many_views": {"mirror": True}}, 2 * RECORDS),
        ({"remainder": "pad"}, 24),
        ({"bad_records": "skip"}, RECORDS),
        ({"hold_decoded": False}, RECORDS),
    ],
    ids=str,
)
def test_options_of_the_order_work_without_ingests_index(pattern, options, length):
    drawn = order(read(pattern, feeding=options))
    assert len(drawn) == length
    assert set(drawn) == set(range(RECORDS))
    assert {*map(drawn.count, range(RECORDS))} == ({2} if length == 40 else {1, 1 + length // 24})


def test_options_that_earlier_versions_kept_by_default_change_nothing():
    kept = {"shuffle_records": 10_000, "files_at_once": 16, "data_service": None}
    for source in ("auto", "indexed"):
        found = FeedingOptions.model_validate({"batch_size": 3, "source": source, **kept})
        assert found == FeedingOptions(batch_size=3)
