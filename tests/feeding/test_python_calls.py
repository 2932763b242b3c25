import gc
import subprocess
import sys

import pytest
import tensorflow as tf

from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.python_calls import call_python
from image_pipeline.components.feeding.reader import BatchReader
from image_pipeline.components.views.options import ViewOptions

pytestmark = pytest.mark.beam

# TensorFlow alone hangs at the end of this program: its functions are then under way.
_ENDS_WHILE_READING = """
import time
import numpy as np
import tensorflow as tf
from image_pipeline.components.feeding.python_calls import call_python

def take_long(number):
    end = time.monotonic() + 0.2
    while time.monotonic() < end:  # Never without the interpreter for long.
        sum(range(1000))
    return [np.int64(number)]

numbers = tf.data.Dataset.counter().map(
    lambda number: call_python(take_long, [number], [tf.int64]), num_parallel_calls=2
)
iterator = iter(numbers.prefetch(2))
next(iterator)
print("the end")
"""


def test_results_are_those_of_the_function():
    (sums, products) = call_python(
        lambda a, b: [a + b, a * b], [tf.constant([1, 2]), tf.constant([3, 4])], [tf.int32] * 2
    )
    assert (sums.numpy().tolist(), products.numpy().tolist()) == ([4, 6], [3, 8])


def test_one_result_is_a_list_too():
    (one,) = call_python(lambda number: [number + 1], [tf.constant(1)], [tf.int32])
    assert one.numpy() == 2


def test_its_errors_come_out():
    def fail(_):
        raise ValueError("the reason")

    with pytest.raises(ValueError, match="the reason"):
        call_python(fail, [1], [tf.int64])


def test_a_data_set_that_is_gone_leaves_nothing_behind(train_shards):
    feeding = FeedingOptions(batch_size=4)
    batches = input_fn(
        train_shards,
        view=ViewOptions(height_px=8, width_px=8),
        feeding=feeding,
        transform_graph_dir=None,
        mode="train",
        epochs=2,
    )
    before = _count(BatchReader)
    iterator = iter(batches.prefetch(1))
    next(iterator)
    del batches  # An iterator keeps what it needs.
    assert _count(BatchReader) == before > 0
    assert sum(len(labels) for _, labels in iterator) > 0
    del iterator
    assert _count(BatchReader) == before - 1


def _count(kind):
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


def test_a_process_ends_while_a_data_set_is_being_read():
    ended = subprocess.run(
        [sys.executable, "-c", _ENDS_WHILE_READING], capture_output=True, text=True, timeout=500
    )
    assert (ended.returncode, ended.stdout) == (0, "the end\n"), ended.stderr[-2000:]


def test_a_process_ends_while_input_fn_is_being_read(train_shards):
    program = f"""
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions

feeding = FeedingOptions(batch_size=16, hold_decoded=False)
batches = input_fn({train_shards!r}, view=ViewOptions(), feeding=feeding,
                   transform_graph_dir=None, mode="train", epochs=None)
iterator = iter(batches)
for _ in range(3):
    next(iterator)
print("the end")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=500
    )
    assert (ended.returncode, ended.stdout) == (0, "the end\n"), ended.stderr[-2000:]
