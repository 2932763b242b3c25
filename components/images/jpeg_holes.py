"""Zeros where a JPEG's coded data should be, as interrupted downloads and bad disks leave them.

Zero bytes are codes like any others, and are common in drawings and white walls. But the file's own
tables say what they stand for, and in most files that is something no image has: hundreds of
coefficients one after the other, all equal; a mean that falls below black; blocks that each end
a run of empty ones, where one code would do for all. By hand, since no decoder looks: 196 to 200 of
200 such files are found, of which libjpeg passes nearly all (docs/damage.md).
"""

import bisect
from dataclasses import dataclass
from typing import NamedTuple

from image_pipeline.components.images.bad_image import CORRUPT, BadImage
from image_pipeline.components.images.jpeg import JpegStructure, find_markers

_DHT, _SOS, _EOI, _DQT = 0xC4, 0xDA, 0xD9, 0xDB
# Baseline, extended and progressive, all by Huffman's codes.
_FRAMES = (0xC0, 0xC1, 0xC2)
# Fewer zero bytes than this are left to the decoder.
LEAST_HOLE_BYTES = 64
# No image has this many equal coefficients in a row (four blocks of them, each -1), if each block
# has many: stripes and other patterns repeat blocks with few.
_IMPOSSIBLE_COEFFICIENTS = 256
_MANY_IN_BLOCK = 16
_ALL_OF_FEW = 5  # The first five, which the usual first scan of details codes, and all are there.
# In a later scan each new coefficient comes with its sign: as many negative ones in a row.
_IMPOSSIBLE_SIGNS = 32
# The mean of 8 x 8 pixels has 2048 levels (T.81, A.3.3); rounding may add some.
_IMPOSSIBLE_FALL = 4096
_IMPOSSIBLE_RUNS = 8
# So many bits of a later scan may be zero of even coefficients: libjpeg collects 1000 behind one
# code (MAX_CORR_BITS), to which a block of them is added.
_CORRECTION_BITS = 1064
_ZERO_RUN = 0xF0  # sixteen coefficients of zero, and more to come
# Ends of runs of up to this many blocks, as a power of two. Longer ones may have a reason.
_SHORT_RUN = 2


class Codes(NamedTuple):
    """The parts of a Huffman table that are needed."""

    zeros_symbol: int
    """What a code of nothing but zero bits stands for."""
    zeros_length: int
    """Of that code, in bits."""
    symbols: bytes
    """All of the table's."""


@dataclass(frozen=True, slots=True)
class Component:
    """A channel in a scan."""

    name: int
    blocks: int
    """In a group of blocks that is coded together (MCU)."""
    dc_step: int
    """Quantisation of the mean; 0 where it is not stated."""
    dc: Codes | None
    ac: Codes | None


@dataclass(frozen=True, slots=True)
class Scan:
    """One pass over the image (ITU-T T.81, B.2.3)."""

    start: int
    """Of its coded data in the file, in bytes; `end` is that of the next marker."""
    end: int
    progressive: bool
    first: int
    """Coefficients from 0 (the mean) to 63, in zigzag order; `last` is included."""
    last: int
    is_refined: bool
    """Whether an earlier scan coded them, and this one adds a bit."""
    shift: int
    """How many bits are left to later scans."""
    components: tuple[Component, ...]


def read_scans(data: bytes) -> list[Scan]:
    """Lists the scans of a Huffman-coded JPEG, as far as it is well formed; none of other kinds."""
    # What the segments before a scan have defined: by components' names, how many blocks and which
    # quantisation table they have; by tables' numbers, the step of the mean, and Huffman's codes,
    # to whose numbers 0x10 is added for those of AC.
    sampling: dict[int, tuple[int, int]] = {}
    steps: dict[int, int] = {}
    codes: dict[int, Codes] = {}
    progressive, scans, offset = False, list[Scan](), 2
    markers = [position for position in find_markers(data) if position >= 2]
    for position in markers:
        if position < offset:
            continue
        code = data[position + 1]
        if code == _EOI or (0xC0 <= code <= 0xCF and code not in (*_FRAMES, _DHT, 0xC8, 0xCC)):
            break
        offset = position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        payload = data[position + 4 : offset]
        if code in _FRAMES:
            progressive = code == 0xC2
            parts = payload[6::3], payload[7::3], payload[8::3]
            for name, factors, table in zip(*parts, strict=False):
                sampling[name] = ((factors >> 4) * (factors & 15), table)
        elif code == _DHT:
            while len(payload) > 17:  # The first code of a table is that of zeros (T.81, annex C).
                counts = payload[1:17]
                symbols = payload[17 : 17 + sum(counts)]
                length = next((n for n, count in enumerate(counts, 1) if count), 0)
                if length and symbols:
                    codes[payload[0]] = Codes(symbols[0], length, symbols)
                payload = payload[17 + sum(counts) :]
        elif code == _DQT:
            while len(payload) > 2:  # The mean's step is the first of a table's 64.
                width = 2 if payload[0] >> 4 else 1
                steps[payload[0] & 15] = int.from_bytes(payload[1 : 1 + width], "big")
                payload = payload[1 + 64 * width :]
        elif code == _SOS:
            count = payload[0] if payload else 0
            if not 1 <= count <= 4 or len(payload) != 4 + 2 * count:
                continue
            components = []
            for name, tables in zip(payload[1 : 1 + 2 * count : 2], payload[2::2], strict=False):
                blocks, table = sampling.get(name, (1, -1))
                components.append(
                    Component(
                        name=name,
                        blocks=blocks if count > 1 else 1,
                        dc_step=steps.get(table, 0),
                        dc=codes.get(tables >> 4),
                        ac=codes.get(0x10 + (tables & 15)),
                    )
                )
            first, last, bits = payload[-3:]
            after = bisect.bisect_left(markers, offset)
            scans.append(
                Scan(
                    start=offset,
                    end=markers[after] if after < len(markers) else len(data),
                    progressive=progressive,
                    first=first,
                    last=last,
                    is_refined=bits >> 4 > 0,
                    shift=bits & 15,
                    components=tuple(components),
                )
            )
    return scans


def check_holes(data: bytes, structure: JpegStructure, left_over: int) -> None:
    """Refuses a JPEG with zeros in its coded data that cannot stand for an image.

    A file without `LEAST_HOLE_BYTES` zeros in a row costs no more than the search for them.

    Args:
      data: the whole file.
      left_over: how many bytes before the end marker the decoder did not need; zeros among them are
        padding.

    Raises:
      BadImage: there is such a hole.
    """
    zeros, end = bytes(LEAST_HOLE_BYTES), structure.end_offset - left_over
    if data.find(zeros, structure.first_scan, end) < 0:
        return
    for scan in read_scans(data):
        at = data.find(zeros, scan.start, min(scan.end, end))
        while at >= 0:
            rest = data[at : min(scan.end, end)]
            length = len(rest) - len(rest.lstrip(b"\0"))
            judge = _is_impossible_detail if scan.first else _is_impossible_mean
            if judge(scan, 8 * length):
                message = f"{length} zero bytes at byte {at}, where the data of pixels should be"
                raise BadImage(CORRUPT, message)
            at = data.find(zeros, at + length, min(scan.end, end))


def count_last_zeros(data: bytes, structure: JpegStructure) -> int:
    """Counts the zero bytes right before the end marker."""
    coded = data[structure.first_scan : structure.end_offset]
    return len(coded) - len(coded.rstrip(b"\0"))


def lacks_scans(data: bytes) -> bool:
    """Tells whether a JPEG is progressive and ends before all bits of all coefficients were coded.

    Such a file is allowed, and looks blurred.
    """
    scans = read_scans(data)
    if not scans or not scans[-1].progressive:
        return False
    left: dict[tuple[int, int], int] = {}
    for scan in scans:
        for component in scan.components:
            for coefficient in range(scan.first, min(scan.last, 63) + 1):
                left[component.name, coefficient] = scan.shift
    names = {name for name, _ in left}
    return len(left) < 64 * len(names) or any(left.values())


def _is_impossible_mean(scan: Scan, zero_bits: int) -> bool:
    """For a scan of means, including the scans of files that are not progressive."""
    if scan.is_refined:
        return False
    bits = coefficients = 0
    for component in scan.components:
        if component.dc is None or (component.ac is None and not scan.progressive):
            return False
        block_bits, block_coefficients = _read_zeros_as_block(component, scan.progressive)
        bits += component.blocks * block_bits
        coefficients += component.blocks * block_coefficients
    # The zeros may begin and end inside a group of blocks.
    groups = zero_bits // bits - 2 if bits else 0
    falls = []  # By how much zeros make the mean less: of n zero bits, 1 - 2 ** n steps a block.
    for component in scan.components:
        size = component.dc.zeros_symbol if component.dc else 0
        fall = ((1 << size) - 1) * component.dc_step if size <= 11 else 0
        falls.append(component.blocks * fall)
    return groups * coefficients >= _IMPOSSIBLE_COEFFICIENTS or (
        groups * (max(falls) << scan.shift) >= _IMPOSSIBLE_FALL
    )


def _read_zeros_as_block(component: Component, progressive: bool) -> tuple[int, int]:
    """Returns how many bits of zero make a block, and how many coefficients that are not zero."""
    assert component.dc
    bits = component.dc.zeros_length + component.dc.zeros_symbol
    if progressive or component.ac is None:
        return bits, 0
    run, size = divmod(component.ac.zeros_symbol, 16)
    if size == 0 and run < 15:  # the block's end
        return bits + component.ac.zeros_length, 0
    codes = -(-63 // (run + 1))
    is_pattern = codes < _MANY_IN_BLOCK
    return bits + codes * (component.ac.zeros_length + size), 0 if is_pattern else codes


def _is_impossible_detail(scan: Scan, zero_bits: int) -> bool:
    """For a progressive file's scan of one channel's coefficients other than the mean."""
    codes = scan.components[0].ac
    if codes is None:
        return False
    run, size = divmod(codes.zeros_symbol, 16)
    band = min(scan.last, 63) - scan.first + 1
    if size and -(-band // (run + 1)) < (_MANY_IN_BLOCK if run else _ALL_OF_FEW):
        return False
    # A later scan adds a bit to each coefficient that is not zero, of all blocks that it passes.
    band = band if scan.is_refined else 0
    zero_bits -= _CORRECTION_BITS if scan.is_refined else 0
    if size:
        found = zero_bits // (codes.zeros_length + (1 + band if scan.is_refined else size)) - 1
        return found >= (_IMPOSSIBLE_SIGNS if scan.is_refined else _IMPOSSIBLE_COEFFICIENTS)
    if codes.zeros_symbol == _ZERO_RUN:
        return zero_bits // (codes.zeros_length + band) > _IMPOSSIBLE_RUNS
    merges_runs = any(0x10 <= symbol < _ZERO_RUN and not symbol % 16 for symbol in codes.symbols)
    found = zero_bits // (codes.zeros_length + run + (band << run)) - 1
    return run <= _SHORT_RUN and merges_runs and found >= _IMPOSSIBLE_RUNS
