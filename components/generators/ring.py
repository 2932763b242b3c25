"""Memory that two processes share: one writes bytes to it, the other reads them in their order.

It has no name that could be left behind: when both processes have ended, however they did, it is
gone. Nor is it limited by the size of `/dev/shm`, which is 64 MB in many containers.
"""

import mmap
import os
import tempfile

import numpy as np


def allocate(size_bytes: int) -> int:
    """Makes memory to share; returns its file descriptor."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("image-pipeline", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size_bytes)
    return descriptor


class Ring:
    """One end of the memory. Whoever uses it says when there is room, or data."""

    def __init__(self, descriptor: int, size_bytes: int):
        """Maps the memory; the descriptor may then be closed."""
        self.size_bytes = size_bytes
        self._memory = np.frombuffer(mmap.mmap(descriptor, size_bytes), np.uint8)
        self._at = 0

    def write(self, data: np.ndarray) -> None:
        """Writes bytes, uint8 [n], behind those written before."""
        done = 0
        while done < len(data):
            room = self._next(len(data) - done)
            room[:] = data[done : done + len(room)]
            done += len(room)

    def read(self, size_bytes: int) -> np.ndarray:
        """Copies the next bytes: uint8 [n]."""
        data, done = np.empty(size_bytes, np.uint8), 0
        while done < size_bytes:
            found = self._next(size_bytes - done)
            data[done : done + len(found)] = found
            done += len(found)
        return data

    def _next(self, most_bytes: int) -> np.ndarray:
        """The next bytes up to the end of the memory, which are then passed."""
        part = self._memory[self._at : self._at + most_bytes]
        self._at = (self._at + len(part)) % self.size_bytes
        return part
