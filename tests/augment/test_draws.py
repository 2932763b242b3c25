"""What NumPy draws of a record's key: the very numbers that the steps draw of it in TensorFlow."""

import math

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.augment import draws, keys
from image_pipeline.components.hashing import mix64

pytestmark = pytest.mark.unit

STEP = 0x9E3779B97F4A7C15
MOST = 2**64
INT64 = st.integers(-(2**63), 2**63 - 1)


def _mix(number):
    return int(mix64(np.array([number % MOST], np.uint64))[0])


def _fold(key, number):
    """Python's integers have no bounds and so no overflow of their own."""
    return _mix(_mix(key) ^ _mix(number + STEP))


def _uniform(key, count):
    return [(_mix(key + (i + 1) * STEP) >> 40) / 2**24 for i in range(count)]


def _keys(count, seed=0, epoch=0):
    ids = np.arange(count)
    return tf.constant(keys.record_keys(seed, epoch, ids, np.zeros_like(ids)))


@given(st.lists(st.integers(0, MOST - 1), min_size=1, max_size=5), INT64, st.integers(1, 9))
def test_folds_and_numbers_are_the_oracles(drawn, number, count):
    tensor = tf.constant(np.array(drawn, np.uint64))
    folded = draws.fold(tensor, tf.constant(number, tf.int64))
    assert folded.numpy().tolist() == [_fold(key, number) for key in drawn]
    numbers = draws.uniform(tensor, count)
    assert numbers.dtype == tf.float32
    assert numbers.numpy().tolist() == [_uniform(key, count) for key in drawn]


@given(INT64, st.integers(0, 2**40), st.lists(INT64, min_size=1, max_size=4), st.integers(0, 99))
def test_a_records_key_folds_seed_epoch_id_and_copy(seed, epoch, record_ids, copy):
    found = keys.record_keys(seed, epoch, np.array(record_ids), np.full(len(record_ids), copy))
    start = _fold(_fold(0, seed), epoch)
    assert found.tolist() == [_fold(_fold(start, each), copy) for each in record_ids]


def test_each_copy_has_its_own_key():
    found = keys.record_keys(0, 0, np.array([7, 7, 7]), np.array([0, 1, 0]))
    assert found[0] == found[2] != found[1]


def test_negative_numbers_and_plain_integers_fold():
    own = _keys(3)
    assert draws.fold(own, -1).numpy().tolist() == [_fold(int(key), -1) for key in own]
    np.testing.assert_array_equal(draws.fold(own, 5), draws.fold(own, tf.constant(5, tf.int64)))
    assert (draws.fold(own, -1).numpy() != draws.fold(own, 1).numpy()).all()


def test_numbers_of_their_own_for_every_key_fold():
    own = _keys(3)
    folded = draws.fold(own, tf.constant([4, -5, 6], tf.int64)).numpy().tolist()
    assert folded == [_fold(int(key), n) for key, n in zip(own, (4, -5, 6), strict=True)]


def test_the_same_bits_in_all_ways():
    def run(own):
        return draws.fold(own, -9), draws.uniform(own, 5)

    eager = run(_keys(100))
    dataset = tf.data.Dataset.from_tensor_slices(_keys(100)).batch(100).map(run)
    others = [
        tf.function(run)(_keys(100)),
        tf.function(run, jit_compile=True)(_keys(100)),
        next(iter(dataset)),
    ]
    for other in others:
        for expected, part in zip(eager, other, strict=True):
            assert part.dtype == expected.dtype
            np.testing.assert_array_equal(part, expected)


def test_numbers_are_uniform():
    numbers = draws.uniform(_keys(50_000), 2).numpy().astype(float)
    assert numbers.min() >= 0 and numbers.max() < 1
    assert numbers.mean(axis=0) == pytest.approx([0.5, 0.5], abs=4 / math.sqrt(12 * 50_000))
    assert numbers.var(axis=0) == pytest.approx([1 / 12, 1 / 12], rel=0.02)
    for column in numbers.T:
        assert scipy.stats.kstest(column, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("bits", [range(24)])
def test_every_bit_is_a_fair_coin(bits):
    whole = (draws.uniform(_keys(50_000), 1).numpy()[:, 0] * 2**24).astype(np.int64)
    shares = [(whole >> bit & 1).mean() for bit in bits]
    assert shares == pytest.approx([0.5] * 24, abs=0.01)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: _keys(50_001)[:-1], lambda: _keys(50_001)[1:]),  # neighbouring ids
        (lambda: _keys(50_000), lambda: _keys(50_000, epoch=1)),
        (lambda: _keys(50_000), lambda: _keys(50_000, seed=1)),
        (lambda: _keys(50_000), lambda: draws.fold(_keys(50_000), 0)),
        (lambda: draws.fold(_keys(50_000), 0), lambda: draws.fold(_keys(50_000), 1)),
    ],
    ids=["records", "epochs", "seeds", "folded", "places"],
)
def test_numbers_of_any_two_keys_are_independent(one, other):
    _check_independent(*(draws.uniform(own(), 1).numpy()[:, 0] for own in (one, other)))


def test_numbers_of_one_key_are_independent():
    numbers = draws.uniform(_keys(50_000), 3).numpy()
    for one, other in ((0, 1), (1, 2), (0, 2)):
        _check_independent(numbers[:, one], numbers[:, other])


def _check_independent(one, other):
    """By correlation, and by counts in a grid of 8 x 8, as they would be by chance."""
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / math.sqrt(len(one))
    counts = np.histogram2d(one, other, bins=8, range=[[0, 1], [0, 1]])[0]
    assert scipy.stats.chisquare(counts.ravel()).pvalue > 1e-3


def test_records_have_keys_of_their_own():
    found = np.concatenate([_keys(100_000, epoch=epoch).numpy() for epoch in range(3)])
    assert len(np.unique(found)) == 300_000


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=9), INT64)
def test_numbers_of_keys_are_those_of_tensorflow(own, number):
    found = keys.fold(np.array(own, np.uint64), number)
    np.testing.assert_array_equal(found, draws.fold(tf.constant(own, tf.uint64), number))
    np.testing.assert_array_equal(keys.uniform(found, 5), draws.uniform(tf.constant(found), 5))
