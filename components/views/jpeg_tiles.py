"""JPEG files in tiles, as ingest writes them, of which readers decode those that they need.

A restart marker ends a run of blocks that can be decoded without those before it. Where the runs
divide each row of blocks evenly, an image is a grid of tiles, and any rectangle of them is a JPEG
file of its own, under a header with its size, its markers renumbered. Its pixels are those of
the whole image but for a seam: colours of half the resolution are smoothed over their neighbours.

Source: ITU-T T.81, B.2 (markers) and E.1.4 (restart intervals).
"""

import functools
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_DRI, _SOF0, _SOF1, _SOF15, _SOS, _EOI = 0xDD, 0xC0, 0xC1, 0xCF, 0xDA, 0xD9
_NOT_FRAMES = (0xC4, 0xC8, 0xCC)  # in the range of the frames' markers, but DHT, JPG and DAC
_RESTARTS = bytes(range(0xD0, 0xD8))
_SEGMENT, _INTERVAL, _SIDES = struct.Struct(">BBH"), struct.Struct(">H"), struct.Struct(">HH")
# Tables and a JFIF header take some 630. A thumbnail before them is longer, and not worth a search.
_MOST_HEADER_BYTES = 2048
_BLOCK_PX = 8
# What the smoothing of colours reaches over: one of half the resolution, which is two pixels.
_SEAM_PX = 2
# To cut takes as long as to decode some 10,000 pixels.
_WORTH_PIXELS = 96 * 128


class Part(NamedTuple):
    """Some of an image's tiles as a JPEG file, and where they are in the image, in pixels."""

    encoded: bytearray
    top: int
    left: int


class _Layout(NamedTuple):
    """What a header says; sizes in pixels."""

    size_at: int  # offset of height and width, two bytes each
    scan_at: int  # offset of the first tile
    size: tuple[int, int]
    tile: tuple[int, int]


class _Tiles(NamedTuple):
    """Consecutive tiles of a column or a row."""

    first: int
    last: int  # the one behind them
    total: int
    start_px: int
    size_px: int


def cut_part(data: bytes | memoryview, size: tuple[int, int], window: Sequence[int]) -> Part | None:
    """Cuts the tiles that a window needs out of a JPEG file.

    Args:
      data: of any image file.
      size: height and width that the image should have, in pixels.
      window: top, left, height and width, in pixels, inside the image.

    Returns:
      A file of which the window's pixels are those of the whole image; None if that is not a JPEG
      file in tiles, or of another size, or too little would be left out, or its header is long.
    """
    if size[0] * size[1] - window[2] * window[3] < _WORTH_PIXELS:
        return None  # For small images, looking at the header would cost more than it can save.
    layout = _read_layout(data) if data[:2] == b"\xff\xd8" else None
    if layout is None or layout.size != size:
        return None
    rows = _choose_tiles(window[0], window[2], layout.tile[0], size[0])
    columns = _choose_tiles(window[1], window[3], layout.tile[1], size[1])
    left_out = size[0] * size[1] - rows.size_px * columns.size_px
    if left_out < _WORTH_PIXELS or columns.size_px < _BLOCK_PX:
        return None
    bounds = _find_bounds(data, layout.scan_at, rows.total * columns.total)
    if bounds is None:
        return None
    sides = _SIDES.pack(rows.size_px, columns.size_px)
    header = [data[: layout.size_at], sides, data[layout.size_at + 4 : layout.scan_at]]
    return Part(_join_tiles(header, data, bounds, rows, columns), rows.start_px, columns.start_px)


def _choose_tiles(start: int, length: int, side: int, whole: int) -> _Tiles:
    """The tiles of a side that some pixels are in, and those of the seam."""
    total = -(-whole // side)
    first = max(0, start - _SEAM_PX) // side
    last = min(total, -(-(start + length + _SEAM_PX) // side))
    return _Tiles(first, last, total, first * side, min(last * side, whole) - first * side)


def _read_layout(data: bytes | memoryview) -> _Layout | None:
    """Reads the header of a JPEG file; None of one that is not in tiles, or has a long header."""
    start = bytes(data[:_MOST_HEADER_BYTES])
    scan = start.find(bytes([0xFF, _SOS]))
    if scan < 0 or scan + 4 > len(start):
        return None
    return _read_header(start[: scan + 2 + start[scan + 3]])


@functools.lru_cache(4096)
def _read_header(header: bytes) -> _Layout | None:
    """As `_read_layout`: one encoder's headers differ by the size only."""
    at, interval, size_at = 2, 0, 0
    while at + 10 <= len(header):
        start, code, length = _SEGMENT.unpack_from(header, at)
        if start != 0xFF or (_SOF1 < code <= _SOF15 and code not in _NOT_FRAMES):
            return None  # Progressive, or rarer: it has no tiles.
        if code == _DRI:
            (interval,) = _INTERVAL.unpack_from(header, at + 4)
        elif code in (_SOF0, _SOF1):
            size_at = at + 5
        elif code == _SOS:
            if not size_at or at + 2 + length != len(header):
                return None
            if not header[at + 4] or header[at + 4] != header[size_at + 4]:
                return None  # Not all colours are in this scan.
            height, width = _SIDES.unpack_from(header, size_at)
            sampling = header[size_at + 6 : size_at + 5 + 3 * header[at + 4] : 3]
            tile = _measure_tile(width, sampling, interval)
            return tile and _Layout(size_at, at + 2 + length, (height, width), tile)
        at += 2 + length
    return None


def _measure_tile(width: int, sampling: bytes, interval: int) -> tuple[int, int] | None:
    """The tiles' height and width in pixels; None if they are not even parts of rows, nor rows.

    Args:
      width: of the image, in pixels.
      sampling: a byte of each colour: how often across (its upper half) and down (the lower).
      interval: from one marker to the next, in blocks that have all colours (MCUs).
    """
    is_gray = len(sampling) == 1  # Its blocks are single ones, whatever its header states.
    across = _BLOCK_PX * (1 if is_gray else max(each >> 4 for each in sampling))
    down = _BLOCK_PX * (1 if is_gray else max(each & 15 for each in sampling))
    in_row = -(-width // across) if across else 0
    run = min(interval, in_row)
    if not run or not down or in_row % run or interval % run:
        return None
    return interval // run * down, run * across


def _find_bounds(data: bytes | memoryview, scan_at: int, count: int) -> np.ndarray | None:
    """Where tiles begin, and the last one ends: int64 [count + 1]; None if a marker is amiss."""
    values = np.frombuffer(data, np.uint8, offset=scan_at)
    at = (values[:-1] == 0xFF).nonzero()[0]
    at += 1
    at = at[values[at] != 0][:count]  # A zero says that the byte before is not a marker.
    if len(at) < count or values[at].tobytes() != _number_markers(count):
        return None
    bounds = np.empty(count + 1, np.int64)
    bounds[0] = scan_at
    np.add(at, scan_at + 1, out=bounds[1:])
    return bounds


@functools.lru_cache(1024)
def _number_markers(count: int) -> bytes:
    """The codes of the markers behind tiles: the eight restarts again and again, then the end."""
    return (_RESTARTS * (count // 8 + 1))[: count - 1] + bytes([_EOI])


def _join_tiles(
    header: list[bytes | memoryview],
    data: bytes | memoryview,
    bounds: np.ndarray,
    rows: _Tiles,
    columns: _Tiles,
) -> bytearray:
    """A file of a header and some tiles, each with the marker behind it, which it renumbers."""
    scan_at, grid = bounds[0], (rows.total, columns.total)
    starts, ends = (
        each.reshape(grid)[rows.first : rows.last, columns.first : columns.last]
        for each in (bounds[:-1], bounds[1:])
    )
    parts = zip(starts[:, 0].tolist(), ends[:, -1].tolist(), strict=True)
    joined = bytearray().join([*header, *[data[start:end] for start, end in parts]])
    codes_at = (ends - starts).cumsum()
    codes_at += scan_at - 1
    np.frombuffer(joined, np.uint8)[codes_at] = np.frombuffer(
        _number_markers(len(codes_at)), np.uint8
    )
    return joined
