"""Keras, and everything else that iterates a data set more than once, sees epoch after epoch."""

import concurrent.futures

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.feeding import input_fn
from image_pipeline.components.feeding.iterations import ENDLESS, Iterations
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.order.order import ShuffledOrder
from image_pipeline.components.views.options import ViewOptions

pytestmark = pytest.mark.unit

VIEW = ViewOptions(height_px=8, width_px=10)
BATCH = 4


def make(shards, mode="train", feeding=None, **arguments):
    """Pairs of pixels and the records' rows in the index, which their file names tell."""
    options = FeedingOptions(**{"batch_size": BATCH, "augment": [], **(feeding or {})})
    return input_fn.input_fn(
        shards, view=VIEW, feeding=options, transform_graph_dir=None, mode=mode, **arguments
    )


def pixels_of_rows(shards):
    """Row of the index of each image: the order in which evaluation reads them."""
    batches = make(shards, "eval").as_numpy_iterator()
    return {
        image.tobytes(): row
        for row, image in enumerate(image for images, _ in batches for image in images)
    }


def rows_of(shards, batches):
    """The rows of the index in batches of images: a list a batch."""
    rows = pixels_of_rows(shards)
    return [[rows[np.asarray(image).tobytes()] for image in images] for images, _ in batches]


def due(shards, epochs):
    """The rows of each batch of these epochs, by `order` alone."""
    order = ShuffledOrder(range(len(read_index(shards))), seed=0)
    rows = [order.draw(epoch, np.arange(order.length)).rows.tolist() for epoch in epochs]
    return [one[start : start + BATCH] for one in rows for start in range(0, len(one), BATCH)]


def steps(shards):
    return -(-len(read_index(shards)) // BATCH)


class Watcher(keras.Model):
    """Keeps what it is trained and tested on."""

    def __init__(self):
        super().__init__()
        self.trained, self.tested = [], []
        self.compile(optimizer="sgd", run_eagerly=True)

    def train_step(self, data):
        self.trained.append((data[0].numpy(), None))
        return {"loss": 0.0}

    def test_step(self, data):
        self.tested.append((data[0].numpy(), None))
        return {"loss": 0.0}


def fit(shards, data, **arguments):
    """The rows of each batch that Keras trained on, what it tested, and its history."""
    model = Watcher()
    history = model.fit(data, verbose=0, shuffle=False, **arguments)
    return rows_of(shards, model.trained), rows_of(shards, model.tested), history.history


@pytest.mark.e2e
def test_keras_trains_on_another_epoch_each_time(train_shards):
    train, validation = make(train_shards), make(train_shards, "eval")
    trained, tested, history = fit(train_shards, train, epochs=4, validation_data=validation)
    assert len({tuple(batch) for batch in trained}) == 4 * steps(train_shards)
    assert trained == due(train_shards, range(4))
    assert tested == 4 * rows_of(train_shards, make(train_shards, "eval"))
    assert len(history["val_loss"]) == 4


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("options", "change", "arguments"),
    [
        ({"epochs": 4}, lambda data: data, {"steps_per_epoch": True}),
        ({"epochs": None}, lambda data: data, {"steps_per_epoch": True}),
        ({}, lambda data: data.repeat(), {"steps_per_epoch": True}),
        ({}, lambda data: data.repeat(4), {"steps_per_epoch": True}),
        ({}, lambda data: data.prefetch(2), {}),
    ],
    ids=["epochs", "endless", "repeat", "repeat(4)", "prefetch"],
)
def test_each_way_of_handing_epochs_to_keras_gives_these_epochs(
    train_shards, options, change, arguments
):
    if arguments:
        arguments = {"steps_per_epoch": steps(train_shards)}
    data = change(make(train_shards, **options)).map(lambda images, *_: (images, 0))
    trained, _, _ = fit(train_shards, data, epochs=4, **arguments)
    assert trained == due(train_shards, range(4))


@pytest.mark.e2e
def test_a_part_of_each_epoch_is_of_another_epoch_each_time(train_shards):
    trained, _, _ = fit(train_shards, make(train_shards).take(3), epochs=4)
    parts = [due(train_shards, [epoch])[:3] for epoch in range(4)]
    assert trained == [batch for part in parts for batch in part]


@pytest.mark.e2e
def test_several_steps_in_one_call_lose_no_epoch(train_shards):
    model = Watcher()
    model.steps_per_execution = 3
    model.fit(make(train_shards), epochs=3, verbose=0)
    trained = rows_of(train_shards, model.trained)
    assert trained == due(train_shards, range(3))


@pytest.mark.e2e
def test_a_part_of_an_epoch_is_read_once_only(train_shards):
    """Keras would take its length for that of all epochs, and cut them short."""
    data = make(train_shards, first_epoch=2, first_step=3)
    trained, _, _ = fit(train_shards, data)
    assert trained == due(train_shards, [2])[3:]
    with pytest.raises(tf.errors.OpError) as caught:
        list(data)
    told = str(find_user_error(caught.value))
    assert "can be iterated only once; they begin at first_step=3" in told
    assert "make another data set, with first_epoch=3, or set again='same'" in told


def test_random_views_are_those_of_the_epoch(train_shards):
    crops = {"augment": ["random_resized_crop"]}
    data = make(train_shards, feeding=crops)
    found = [images.numpy().tobytes() for _ in range(2) for images, _ in data]
    expected = make(train_shards, feeding=crops, epochs=2)
    assert found == [images.numpy().tobytes() for images, _ in expected]


def test_iterations_of_several_epochs_follow_each_other(train_shards):
    data = make(train_shards, first_epoch=5, epochs=2)
    found = [rows_of(train_shards, data.as_numpy_iterator()) for _ in range(2)]
    assert found == [due(train_shards, (5, 6)), due(train_shards, (7, 8))]


def test_endless_data_begin_elsewhere_the_next_time(train_shards):
    data = make(train_shards, epochs=None).take(2 * steps(train_shards))
    found = [rows_of(train_shards, data.as_numpy_iterator()) for _ in range(2)]
    assert found == [due(train_shards, (0, 1)), due(train_shards, (ENDLESS, ENDLESS + 1))]


def test_iterators_side_by_side_have_an_epoch_each(train_shards):
    data = make(train_shards)
    pairs = list(zip(data.as_numpy_iterator(), data.as_numpy_iterator(), strict=True))
    for number in range(2):
        found = rows_of(train_shards, [pair[number] for pair in pairs])
        assert found == due(train_shards, [number])


def test_threads_have_an_epoch_each(train_shards):
    data = make(train_shards)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: list(data.as_numpy_iterator()), range(4)))
    found = sorted(rows_of(train_shards, batches) for batches in found)
    assert found == sorted(due(train_shards, [epoch]) for epoch in range(4))


def test_what_is_to_be_the_same_again_is(train_shards):
    data = make(train_shards, again="same", first_epoch=1)
    found = [rows_of(train_shards, data.as_numpy_iterator()) for _ in range(2)]
    assert found == [due(train_shards, [1])] * 2


def test_evaluation_is_the_same_each_time(train_shards):
    data = make(train_shards, "eval")
    first, second = (rows_of(train_shards, data.as_numpy_iterator()) for _ in range(2))
    rows = [row for batch in first for row in batch]
    assert first == second and rows == list(range(len(read_index(train_shards))))


@pytest.mark.parametrize(
    ("mode", "options", "expected"),
    [
        ("train", {}, lambda n: n),
        ("train", {"epochs": 3}, lambda n: 3 * n),
        ("train", {"epochs": None}, lambda _: tf.data.INFINITE_CARDINALITY),
        ("train", {"first_step": 2}, lambda n: n - 2),
        ("train", {"feeding": {"remainder": "drop"}}, lambda n: n - 1),
        ("train", {"feeding": {"remainder": "pad"}, "workers": 2}, lambda n: n),
        ("eval", {"epochs": 2, "first_step": 1}, lambda n: 2 * n - 1),
        ("eval", {"feeding": {"bad_records": "skip"}}, lambda _: tf.data.UNKNOWN_CARDINALITY),
    ],
    ids=["train", "epochs", "endless", "first step", "drop", "pad", "eval", "skip"],
)
def test_the_number_of_batches_is_known(train_shards, mode, options, expected):
    assert len(read_index(train_shards)) % BATCH
    data = make(train_shards, mode, **options)
    number = expected(steps(train_shards))
    assert int(data.cardinality()) == number
    if number > 0:
        assert len(list(data)) == number


def save_and_restore(data, taken, rest, tmp_path):
    """Takes so many batches, stores the iterator, and reads on with another data set's."""
    iterator = iter(data)
    for _ in range(taken):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "iterator"))
    going_on = iter(rest)
    tf.train.Checkpoint(iterator=going_on).restore(path).assert_consumed()
    return [(images.numpy(), None) for images, _ in going_on]


@pytest.mark.whole
@pytest.mark.parametrize("taken", [0, 3])
@pytest.mark.parametrize("iterations", [0, 2])
def test_a_stored_iterator_goes_on_where_it_was(train_shards, tmp_path, iterations, taken):
    data, rest = make(train_shards, epochs=3), make(train_shards, epochs=3)
    for _ in range(iterations):
        next(iter(data))
    batches = save_and_restore(data, taken, rest, tmp_path)
    epochs = range(3 * iterations, 3 * iterations + 3) if taken else range(3)
    assert rows_of(train_shards, batches) == due(train_shards, epochs)[taken:]


def test_iterations_are_numbered():
    iterations = Iterations()
    assert [iterations.begin() for _ in range(3)] == [0, 1, 2]
    once = Iterations("read something else")
    assert once.begin() == 0
    with pytest.raises(UserError, match="can be iterated only once; read something else"):
        once.begin()


def test_an_unknown_way_to_go_on_is_refused(train_shards):
    with pytest.raises(UserError, match="again must be 'next' or 'same', got 'other'"):
        make(train_shards, again="other")


def test_workers_share_a_batch_equally():
    feeding = FeedingOptions(batch_size=12)
    assert Passes(mode="train", workers=3).share_of_batch(feeding) == 4
    with pytest.raises(UserError, match=r"must be a multiple of the 5 workers .* got 12; set"):
        Passes(mode="train", workers=5).share_of_batch(feeding)


def test_what_is_mixed_is_not_parted():
    feeding = FeedingOptions(batch_size=12, augment=["cutmix"])
    assert Passes(mode="train", workers=3).share_of_batch(feeding) == 4
    with pytest.raises(UserError, match="must have an even share of a batch, got 3; set feed"):
        Passes(mode="train", workers=4).share_of_batch(feeding)
    assert Passes(mode="eval", workers=4).share_of_batch(feeding) == 3


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_of_a_shorter_last_batch_each_record_is_one_workers_and_pairs_stay_together(workers):
    feeding = FeedingOptions(batch_size=12, augment=["mixup"])
    for count in range(1, 13):
        passes = [Passes(mode="train", worker=n, workers=workers) for n in range(workers)]
        bounds = [[int(end) for end in each.cut_share(count, feeding)] for each in passes]
        starts, stops = zip(*bounds, strict=True)
        assert (*starts, count) == (0, *stops)
        assert all(start % 2 == 0 for start in starts if start < count)


@pytest.mark.parametrize("epochs", [3, None])
def test_epochs_are_counted_from_the_first(epochs):
    numbers = Passes(mode="train", first_epoch=5, epochs=epochs).count_epochs()
    assert list(numbers.take(4).as_numpy_iterator()) == [5, 6, 7, 8][: epochs or 4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "test"}, "mode must be 'train' or 'eval', got 'test'"),
        ({"mode": "eval", "worker": 2, "workers": 2}, "from 0 to workers - 1, got 2 of 2"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        Passes(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"first_step": -1}, "first_step must be a whole number of at least 0, got -1"),
        ({"first_epoch": -2}, "first_epoch must be a whole number of at least 0, got -2"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"epochs": 2.5}, "epochs must be a whole number of at least 1, got 2.5"),
    ],
)
def test_places_before_the_beginning_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        Passes(mode="train", **arguments)
