"""Keras's own way of going on after a kill trains what an uninterrupted run would have trained."""

import keras
import numpy as np
import pytest

from image_pipeline import SyncEpochs
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.views.options import ViewOptions
from tests import graphs
from tests.training.models import build_linear_model

VIEW = ViewOptions(height_px=8, width_px=8)


class Killed(Exception):
    """What ends training in the middle of an epoch."""


class Kill(keras.callbacks.Callback):
    def __init__(self, epoch):
        super().__init__()
        self._epoch, self._now = epoch, None

    def on_epoch_begin(self, epoch, logs=None):
        self._now = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self._now == self._epoch and batch == 1:
            raise Killed


def open_data(shards, **arguments):
    feeding = FeedingOptions(batch_size=4, augment=["random_resized_crop", "flip_horizontal"])
    folder = graphs.shared_graph_dir()
    options = {"view": VIEW, "feeding": feeding, "transform_graph_dir": folder, "mode": "train"}
    return input_fn(shards, **options | arguments)


def build():
    keras.utils.set_random_seed(0)
    return build_linear_model((8, 8, 3), 2, TrainingOptions(learning_rate=0.1))


@pytest.mark.e2e
def test_a_restored_fit_ends_with_the_weights_of_one_that_was_never_interrupted(
    train_shards, tmp_path
):
    whole = build()
    whole.fit(open_data(train_shards), epochs=5, verbose=0)

    def fit(*, kill=None, sync=True):
        """As a process of its own would: everything is made again."""
        model, data = build(), open_data(train_shards)
        backup = keras.callbacks.BackupAndRestore(str(tmp_path / str(sync)))
        callbacks = [backup, *([SyncEpochs(data)] if sync else []), *([Kill(kill)] if kill else [])]
        # What is made of the data follows, too.
        model.fit(data.prefetch(1), epochs=5, verbose=0, callbacks=callbacks)
        return model

    for sync in (True, False):
        with pytest.raises(Killed):
            fit(kill=2, sync=sync)
        same = all(map(np.array_equal, fit(sync=sync).get_weights(), whole.get_weights()))
        assert same is sync


@pytest.mark.e2e
def test_initial_epoch_is_the_data_s_too(train_shards):
    read = []

    class Watch(keras.Model):
        def train_step(self, batch):
            read.append(batch[0].numpy())
            return {"loss": 0.0}

    model, data = Watch(), open_data(train_shards)
    model.compile(run_eagerly=True)
    callbacks = [SyncEpochs(data)]
    model.fit(data, epochs=5, initial_epoch=3, shuffle=False, verbose=0, callbacks=callbacks)
    due = open_data(train_shards, first_epoch=3, epochs=2)
    for one, other in zip(read, due.as_numpy_iterator(), strict=True):
        np.testing.assert_array_equal(one, other[0])


@pytest.mark.beam
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"first_epoch": 2}, "got first_epoch=2, first_step=0 and epochs=1; leave them out"),
        ({"first_step": 1}, "got first_epoch=0, first_step=1"),
        ({"epochs": None}, "and epochs=None"),
        ({"again": "same"}, "needs the very data set that input_fn returned for training"),
        ({"mode": "eval"}, "needs the very data set that input_fn returned for training"),
    ],
)
def test_data_that_count_otherwise_are_refused(train_shards, arguments, message):
    with pytest.raises(UserError, match=message):
        SyncEpochs(open_data(train_shards, **arguments))


@pytest.mark.beam
def test_what_was_made_of_the_data_is_refused(train_shards):
    with pytest.raises(UserError, match="not one made from it"):
        SyncEpochs(open_data(train_shards).prefetch(1))
