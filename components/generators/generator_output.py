"""What the user's code prints in a worker: whole lines, each with the shard that printed it."""

import contextlib
import io
import os
import sys

_STDERR = 2
_MOST_BYTES = 2**16  # of a line that does not end


class Output:
    """Where all that Python prints in this process goes from now on: to stderr, line by line.

    Attributes:
      printing: who prints; begins each line.
    """

    def __init__(self, printing: str):
        """Takes the place of both streams."""
        self.printing = printing
        self._lines = _Lines(self), _Lines(self)
        self._streams = sys.stdout, sys.stderr = tuple(
            # Unbuffered, so that whoever prints next does not end a line that another has begun.
            io.TextIOWrapper(each, "utf-8", "backslashreplace", "\n", write_through=True)  # type: ignore[type-var]
            for each in self._lines
        )

    def end(self) -> None:
        """Writes what was begun."""
        for stream in (*self._streams, sys.stdout, sys.stderr):
            # The user's code may have closed it, or put anything in its place.
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        for each in self._lines:
            each.end()


class _Lines(io.RawIOBase):
    """Writes a line by one call, so that those of several processes do not mix.

    Of a line that is drawn again and again, such as a progress bar, only its last state is written.
    """

    def __init__(self, output: Output):
        self._output = output
        self._begun: dict[str, bytes] = {}  # by who prints

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:  # For programs that it starts, which write there themselves.
        return _STDERR

    def write(self, data: bytes) -> int:  # type: ignore[override]
        printing = self._output.printing
        *lines, begun = (self._begun.pop(printing, b"") + bytes(data)).split(b"\n")
        for line in lines:
            _write_line(printing, line)
        begun = begun[begun.rstrip(b"\r").rfind(b"\r") + 1 :]
        if len(begun) > _MOST_BYTES:
            _write_line(printing, begun)
        elif begun:
            self._begun[printing] = begun
        return len(data)

    def end(self) -> None:
        for printing, begun in self._begun.items():
            if begun.strip():
                _write_line(printing, begun)
        self._begun.clear()


def _write_line(printing: str, line: bytes) -> None:
    said = line.rstrip(b"\r").rpartition(b"\r")[2]
    os.write(_STDERR, f"{printing}: ".encode() + said + b"\n")
