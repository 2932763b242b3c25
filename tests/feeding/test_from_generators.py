"""A `tf.data.Dataset` of generators in processes: exact items, one order, nothing left behind."""

import gc
import itertools
import os
import subprocess
import sys
import threading

import numpy as np
import psutil
import pytest
import tensorflow as tf

import image_pipeline
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.from_generators import from_generators

pytestmark = pytest.mark.e2e

SIGNATURE = {
    "image": tf.TensorSpec((2, 3), tf.uint8),
    "said": (tf.TensorSpec((), tf.int64), tf.TensorSpec((), tf.string)),
}
PAIR = (tf.TensorSpec((4,), tf.float32), tf.TensorSpec((), tf.int32))


def _make(shard, shards):
    for number in range(shard, 7, shards):
        yield {"image": np.full((2, 3), number, np.uint8), "said": (number, f"n{number}")}


def _pairs(shard, shards):
    for number in range(shard, 64, shards):
        yield np.full(4, number, np.float32), number


_OTHERS = set()  # processes that other tests of this process have left, such as a pool's


@pytest.fixture(autouse=True)
def _others():
    _OTHERS.update(psutil.Process().children(recursive=True))


def _children():
    gc.collect()
    return [each for each in psutil.Process().children(recursive=True) if each not in _OTHERS]


def _numbers(data):
    return [int(item["said"][0]) for item in data]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_items_come_in_turn_and_again(workers):
    data = from_generators(_make, 3, SIGNATURE, workers=workers)
    assert data.element_spec == SIGNATURE
    # Shard 0 has 0, 3, 6, shard 1 has 1, 4, shard 2 has 2, 5.
    for _ in range(2):
        assert _numbers(data) == [0, 1, 2, 3, 4, 5, 6]
    item = next(iter(data))
    assert item["image"].numpy().tolist() == [[0, 0, 0], [0, 0, 0]]
    assert item["said"][1].numpy() == b"n0"


def test_batches_are_those_of_batch():
    plain = from_generators(_make, 2, SIGNATURE)
    for drop in (False, True):
        batched = from_generators(_make, 2, SIGNATURE, batch_size=3, drop_remainder=drop)
        expected = plain.batch(3, drop_remainder=drop)
        assert batched.element_spec == expected.element_spec
        found = list(batched.as_numpy_iterator())
        assert len(found) == (2 if drop else 3)
        for one, other in zip(found, expected.as_numpy_iterator(), strict=True):
            tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def test_all_of_a_signature_s_types():
    signature = (tf.TensorSpec((None, 2), tf.bfloat16), tf.TensorSpec(None, tf.bool))

    def make(shard, shards):
        yield np.ones((shard, 2)), [[True], [False]]

    first, second = from_generators(make, 2, signature).as_numpy_iterator()
    assert first[0].shape == (0, 2) and second[0].tolist() == [[1, 1]]
    assert second[1].tolist() == [[True], [False]]


def test_items_of_one_array():
    def make(shard, shards):
        yield from range(shard, 6, shards)

    data = image_pipeline.from_generators(make, 2, tf.TensorSpec((), tf.int32), batch_size=4)
    assert [batch.tolist() for batch in data.as_numpy_iterator()] == [[0, 1, 2, 3], [4, 5]]


def test_a_model_is_fitted():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    history = model.fit(from_generators(_pairs, 2, PAIR, batch_size=16), epochs=3, verbose=0)
    assert len(history.history["loss"]) == 3 and _children() == []


def test_a_data_set_that_is_dropped_ends_its_processes():
    def make(shard, shards):
        for number in itertools.count():
            yield np.full(4, number, np.float32), number

    iterator = iter(from_generators(make, 4, PAIR, batch_size=2).prefetch(2))
    next(iterator)
    assert len(_children()) >= 1
    del iterator
    assert _children() == []


@pytest.mark.parametrize("batch_size", [None, 2])
def test_an_error_names_its_place_with_the_worker_s_traceback(batch_size):
    def make(shard, shards):
        yield np.zeros(4), 0
        if shard == 1:
            raise KeyError("lost")
        yield np.zeros(4), 0

    data = from_generators(make, 2, PAIR, batch_size=batch_size)
    with pytest.raises(tf.errors.OpError) as raised:
        list(data)
    message = str(raised.value)
    assert "shard 1, item 1: KeyError: 'lost'" in message and "in make" in message
    assert _children() == []


@pytest.mark.parametrize(
    ("yielded", "message"),
    [
        ((np.zeros(5), 0), r"shard 0, item 0: \[0\] must be of shape \(4,\), got \(5,\)"),
        ((np.zeros(4), 2**40), r"item 0: \[1\] must be int32, got int .values would change"),
        (np.zeros(4), "the item must be 2 values, got ndarray"),
    ],
)
def test_a_wrong_item_is_named(yielded, message):
    with pytest.raises(tf.errors.OpError, match=message):
        list(from_generators(lambda shard, shards: iter([yielded]), 1, PAIR))


def test_a_process_that_dies_or_hangs_is_an_error():
    def die(shard, shards):
        os._exit(7)

    def hang(shard, shards):
        threading.Event().wait()
        yield

    with pytest.raises(tf.errors.OpError, match="item 0 of shard 0 of die ended with exit code 7"):
        list(from_generators(die, 1, PAIR))
    with pytest.raises(tf.errors.OpError, match="item 0 of shard 0 of hang was not yielded"):
        list(from_generators(hang, 1, PAIR, timeout_s=3))
    assert _children() == []


def test_items_of_a_batch_must_have_one_shape():
    def make(shard, shards):
        yield np.zeros(1)
        yield np.zeros(2)

    data = from_generators(make, 1, tf.TensorSpec((None,), tf.float32), batch_size=2)
    with pytest.raises(tf.errors.OpError, match=r"must have one shape, got \[\(1,\), \(2,\)\]"):
        list(data)


def test_wrong_arguments_are_refused():
    for wrong in ({"batch_size": 0}, {"workers": 0}, {"batch_size": "8"}, {"workers": 2.5}):
        with pytest.raises(UserError, match="must be a whole number of 1 or more, got "):
            from_generators(_pairs, 2, PAIR, **wrong)
    with pytest.raises(UserError, match="shards must be a whole number of 1 or more"):
        from_generators(_pairs, 0, PAIR)
    with pytest.raises(UserError, match=r"timeout_s must be a number of seconds above 0, got -1"):
        from_generators(_pairs, 1, PAIR, timeout_s=-1)
    with pytest.raises(UserError, match=r"must be tf.TensorSpecs in tuples and dicts"):
        from_generators(_pairs, 1, tf.RaggedTensorSpec((None, None)))


def test_what_cannot_be_sent_is_said():
    lock = threading.Lock()
    with pytest.raises(UserError, match=r"<lambda> cannot be sent to another process .Type"):
        from_generators(lambda shard, shards: iter([lock]), 1, PAIR)


_SCRIPT = """
import itertools, sys
import numpy as np
import psutil
import tensorflow as tf
import image_pipeline

def make(shard, shards):  # It holds this script's own names, and needs no guard.
    for number in itertools.count(SHIFT):
        yield np.full(1000, number, np.int64)

SHIFT = 5
data = image_pipeline.from_generators(make, 2, tf.TensorSpec((1000,), tf.int64)).prefetch(4)
iterator = iter(data)
print(int(next(iterator)[0]), *(child.pid for child in psutil.Process().children()))
sys.stdout.flush()
"""


@pytest.mark.wide
def test_a_script_that_ends_half_way_leaves_nothing(tmp_path):
    (tmp_path / "script.py").write_text(_SCRIPT)
    before = set(os.listdir("/dev/shm"))
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    first, *workers = map(int, done.stdout.split())
    assert first == 5 and len(workers) >= 1
    left = [psutil.Process(pid) for pid in workers if psutil.pid_exists(pid)]
    assert psutil.wait_procs(left, 120)[1] == [] and set(os.listdir("/dev/shm")) <= before
    assert "leaked" not in done.stderr and "Traceback" not in done.stderr
