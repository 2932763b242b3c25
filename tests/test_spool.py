"""What is spooled is made once, and is the same for all who ask."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components import spool as spool_module
from image_pipeline.components.errors import UserError
from image_pipeline.components.spool import Spool

pytestmark = pytest.mark.unit


@given(
    st.lists(st.integers() | st.text() | st.binary()),
    st.integers(1, 9),
    st.sampled_from([0, 40, 2**22]),
    st.data(),
)
def test_all_who_ask_get_all_items_in_their_order_and_each_is_made_once(
    items, at_once, first_bytes, data
):
    made = []
    spool = Spool((made.append(item) or item for item in items), at_once)
    readers = [iter(spool) for _ in range(3)]
    read = [[] for _ in readers]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool_module, "_FIRST_BYTES", first_bytes)
        for _ in range(data.draw(st.integers(0, 20))):  # They take turns, none to its end.
            which = data.draw(st.integers(0, 2))
            read[which].extend(itertools.islice(readers[which], data.draw(st.integers(0, 4))))
        for reader, own in zip(readers, read, strict=True):
            own.extend(reader)
    assert read == [items] * 3 and made == items and list(spool) == items


def test_only_the_first_items_stay_in_memory():
    items = [bytes([n]) * 2**20 for n in range(10)]
    spool = Spool(items, 1)
    again = [list(spool), list(spool)][1]
    assert again == items
    assert [any(each is item for item in items) for each in again] == [True] * 3 + [False] * 7


def test_no_more_is_made_than_is_asked_for_at_once():
    made = []
    spool = Spool((made.append(n) or n for n in range(100)), 5)
    assert made == []
    assert next(iter(spool)) == 0 and made == list(range(5))


def test_an_error_ends_every_pass_at_the_same_item():
    def fail():
        yield from range(7)
        raise ValueError("the eighth")

    spool = Spool(fail(), 5)
    for _ in range(2):
        read = []
        with pytest.raises(ValueError, match="the eighth"):
            read.extend(each for each in iter(spool) if read.append(each))
        assert read == list(range(7))


def test_large_items_are_held_a_few_at_once():
    made = []
    readers = iter(Spool(made.append(n) or bytes(2**20) for n in range(100)))
    ahead = [len(made) - n for n, _ in enumerate(readers)]
    assert max(ahead) == 8 and set(ahead[8:]) == {1, 2, 3}


def test_a_full_disk_is_told_with_its_folder_and_loses_nothing(monkeypatch):
    monkeypatch.setattr(spool_module, "_FIRST_BYTES", 0)
    spool = Spool(range(100), 5)
    reader = iter(spool)
    assert next(reader) == 0
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(spool, "_file", full)
        for _ in range(2):
            with pytest.raises(UserError, match=r"kept in '.*' \(No space left .*set TMPDIR to a"):
                spool._make()
