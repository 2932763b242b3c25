import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.hashing import hash_strings, key_words, mix64

pytestmark = pytest.mark.unit

TEXTS = st.lists(st.text(max_size=40) | st.none(), max_size=40)


def column(texts, chunks=1):
    parts = [texts[number::chunks] for number in range(chunks)]
    return pa.chunked_array(parts, pa.string())


def test_mix64_is_the_finalizer_of_splitmix64():
    # The first three outputs of SplitMix64 from state 1234567, as published by Rosetta Code.
    golden = 0x9E3779B97F4A7C15
    states = np.array([(1234567 + golden * n) % 2**64 for n in (1, 2, 3)], np.uint64)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert mix64(states).tolist() == expected


def test_keys_never_run_into_one_another():
    keys = [(1,), (11,), (1, 1), (1, 11), (11, 1), (-1,), (2**70,), (0,), ()]
    assert len({key_words(key).tobytes() for key in keys}) == len(keys)


def test_numpy_numbers_are_keys_like_others():
    assert key_words((np.int64(3), 4)).tolist() == key_words((3, np.uint8(4))).tolist()


@given(TEXTS, TEXTS)
def test_a_texts_hash_depends_on_nothing_but_itself(texts, others):
    together = hash_strings(column(texts + others), (0,))
    assert together[: len(texts)].tolist() == hash_strings(column(texts), (0,)).tolist()
    alone = [hash_strings(column([text]), (0,))[0] for text in texts]
    assert together[: len(texts)].tolist() == alone


@given(TEXTS)
def test_chunks_and_slices_make_no_difference(texts):
    whole = hash_strings(column(["before", *texts]), (1,))[1:].tolist()
    assert hash_strings(column(["before", *texts]).slice(1), (1,)).tolist() == whole
    cut = hash_strings(column(texts, chunks=2), (1,)).tolist()
    assert cut == whole[0::2] + whole[1::2]


@given(st.lists(st.text("ab\0", max_size=20), unique=True, max_size=60))
def test_different_texts_have_different_hashes(texts):
    assert len(set(hash_strings(column(texts), (0,)).tolist())) == len(texts)


def test_null_is_the_empty_text_and_keys_matter():
    first, second = hash_strings(column([None, ""]), (0,))
    assert first == second
    assert hash_strings(column([""]), (1,))[0] != first


def test_hashes_are_uniform():
    hashes = hash_strings(column([f"{number:032x}" for number in range(50_000)]), (0,))
    for shift in (0, 24, 60):
        counts = np.bincount((hashes >> np.uint64(shift)) % np.uint64(16), minlength=16)
        # Chi-squared with 15 degrees of freedom exceeds 44.3 once in 10,000 times.
        assert ((counts - 3125) ** 2 / 3125).sum() < 44.3
