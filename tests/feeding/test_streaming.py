import logging

import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions
from tests import shards

pytestmark = pytest.mark.unit

RECORDS = 20


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """Twenty records in four shards."""
    folder = tmp_path_factory.mktemp("data") / "Split-train"
    return shards.write_shards(folder, shards.make_examples(RECORDS), 4)


def test_a_record_that_is_no_example_is_named(tmp_path):
    path = str(tmp_path / "texts.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"a line of text")
    with pytest.raises(UserError, match=r"tf.train.Example, but record 0 of \S+texts.tfrecord"):
        input_fn(
            [path],
            view=ViewOptions(),
            feeding=FeedingOptions(source="streaming"),
            transform_graph_dir=None,
            mode="train",
        )


def test_records_of_other_origin_say_what_they_lack(tmp_path):
    example = tf.train.Example()
    example.features.feature["image/encoded"].bytes_list.value.append(b"jpeg")
    path = str(tmp_path / "foreign.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(example.SerializeToString())
    with pytest.raises(UserError, match=r"foreign.tfrecord must have .*image/source_id.*migrating"):
        input_fn(
            [path],
            view=ViewOptions(),
            feeding=FeedingOptions(source="streaming"),
            transform_graph_dir=None,
            mode="eval",
        )


def test_without_a_graph_the_plan_counts_bytes_not_floats(pattern, caplog):
    with caplog.at_level(logging.INFO):
        batches = input_fn(
            [pattern],
            view=ViewOptions(height_px=8, width_px=8),
            feeding=FeedingOptions(source="streaming", batch_size=4),
            transform_graph_dir=None,
            mode="eval",
        )
    assert next(iter(batches))[0].dtype == tf.uint8
    assert "x 4 batch_size x 8 x 8 x 3, uint8" in caplog.text and "float32" not in caplog.text


def stream(pattern, mode="train", epochs=None, first_step=0, **feeding):
    feeding = FeedingOptions(source="streaming", augment=[], **feeding)
    view = ViewOptions(height_px=12, width_px=16)
    return input_fn(
        [pattern],
        view=view,
        feeding=feeding,
        transform_graph_dir=None,
        mode=mode,
        epochs=epochs,
        first_step=first_step,
    )


@pytest.mark.parametrize("epochs", [1, None])
def test_an_epoch_without_a_batch_is_refused_at_once(pattern, epochs):
    with pytest.raises(UserError, match=r"hold 20, feeding.batch_size is 21 and .* is drop; add"):
        stream(pattern, epochs=epochs, batch_size=21, remainder="drop")
    assert len(list(stream(pattern, epochs=1, batch_size=21))) == 1


@pytest.mark.whole
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("epochs", [1, None])
def test_shards_of_nothing_are_refused_at_once(tmp_path, mode, epochs):
    empty = shards.write_shards(tmp_path, [], 2)
    with pytest.raises(UserError, match=r"and 1 more files hold 0, .* add images"):
        stream(empty, mode, epochs)


def test_evaluation_beyond_the_end_is_refused(pattern):
    assert len(list(stream(pattern, "eval", epochs=1, first_step=2, batch_size=8))) == 1
    with pytest.raises(tf.errors.OpError) as caught:
        list(stream(pattern, "eval", epochs=1, first_step=3, batch_size=8))
    assert "must have a batch at first_step=3, but" in str(find_user_error(caught.value))


@pytest.mark.parametrize("remainder", ["keep", "drop"])
def test_a_step_beyond_the_epoch_is_refused_when_it_is_reached(pattern, remainder):
    feeding = {"batch_size": 8, "remainder": remainder}
    steps = 2 if remainder == "drop" else 3
    assert len(list(stream(pattern, epochs=1, first_step=steps - 1, **feeding))) == 1
    with pytest.raises(tf.errors.OpError) as caught:
        list(stream(pattern, epochs=2, first_step=steps, **feeding))
    told = str(find_user_error(caught.value))
    assert f"must have a batch at first_step={steps}, but" in told
    assert "go on with first_step=0 of the next first_epoch" in told
