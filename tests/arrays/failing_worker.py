"""A reader of arrays of which some rows do what a damaged file may let a library do."""

import os
import signal
import sys
import time

import numpy as np

from image_pipeline.components.arrays import array_worker
from image_pipeline.components.arrays.stored_array import StoredArray

ROWS = np.arange(50 * 12, dtype=np.int16).reshape(50, 2, 2, 3)
FAULTS = {
    1: lambda: os.kill(os.getpid(), signal.SIGSEGV),
    2: lambda: np.zeros(2**36, np.uint8),
    3: lambda: time.sleep(1000),
    4: lambda: all(zero == 0 for zero in iter(int, 1)),
    5: lambda: sys.exit(3),
    6: lambda: os.kill(os.getpid(), signal.SIGKILL),
    7: lambda: {}["key"],
    8: lambda: ROWS[:5],
    9: lambda: lambda: 0,
}


def main(link, opener, path, size):
    """What `array_worker.main` does, with little patience."""
    array_worker._ANSWER_CPU_S = 1
    if opener == "failing":
        array_worker.find_opener = lambda name: _open
    array_worker.main(link, opener, path, size)


def _open(path, file):
    if path in map(str, FAULTS):
        FAULTS[int(path)]()
    return [StoredArray(path, "x", ROWS.shape, ROWS.dtype, _read), _array_of_process()]


def _array_of_process():
    number = np.array([[os.getpid()]])
    return StoredArray("", "process", (1, 1), number.dtype, lambda start, stop: number)


def _read(start, stop):
    found = [FAULTS[row]() for row in range(start, stop) if row in FAULTS]
    return next((each for each in found if each is not None), ROWS[start:stop])
