"""Bytes come out of the shared memory as they went in, across its end, and leave nothing behind."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.generators.generator_worker import Ring, allocate

pytestmark = pytest.mark.unit


def _two_ends(size_bytes):
    descriptor = allocate(size_bytes)
    ends = Ring(descriptor, size_bytes), Ring(descriptor, size_bytes)
    os.close(descriptor)
    return ends


@given(st.lists(st.binary(max_size=16), max_size=20))
def test_bytes_come_in_their_order(parts):
    writer, reader = _two_ends(16)
    for part in parts:
        writer.write(np.frombuffer(part, np.uint8))
        assert reader.read(len(part)).tobytes() == part


def test_what_was_read_is_a_copy():
    writer, reader = _two_ends(4)
    writer.write(np.arange(4, dtype=np.uint8))
    read = reader.read(4)
    writer.write(np.full(4, 9, np.uint8))
    assert read.tolist() == [0, 1, 2, 3] and read.flags.writeable


def test_the_memory_has_no_name():
    before = set(os.listdir("/dev/shm"))
    ends = _two_ends(2**20)
    assert set(os.listdir("/dev/shm")) == before
    del ends
