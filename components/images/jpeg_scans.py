"""What a JPEG says about its scans: which coefficients each one codes, and by which codes."""

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from image_pipeline.components.images.jpeg import find_markers

_DHT, _SOS, _EOI, _DQT = 0xC4, 0xDA, 0xD9, 0xDB
# Baseline, extended and progressive, all by Huffman's codes.
_FRAMES = (0xC0, 0xC1, 0xC2)


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
    """Quantisation of the mean; 0 where it is not said."""
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


@dataclass
class _State:
    """What the segments before a scan have defined."""

    progressive: bool = False
    sampling: dict[int, tuple[int, int]] = field(default_factory=dict)  # name: (blocks, table)
    steps: dict[int, int] = field(default_factory=dict)
    codes: dict[int, Codes] = field(default_factory=dict)  # 0x10 is added to those of AC


def read_scans(data: bytes) -> list[Scan]:
    """Lists the scans of a Huffman-coded JPEG, as far as it is well formed.

    Returns:
      The scans in their order; none for other kinds.
    """
    state, scans = _State(), []
    markers = [position for position in find_markers(data) if position >= 2]
    offset = 2
    for position in markers:
        if position < offset:
            continue
        code = data[position + 1]
        if code == _EOI or (0xC0 <= code <= 0xCF and code not in (*_FRAMES, _DHT, 0xC8, 0xCC)):
            break
        offset = position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        payload = data[position + 4 : offset]
        if code == _SOS:
            after = bisect.bisect_left(markers, offset)
            end = markers[after] if after < len(markers) else len(data)
            scans.append(_read_scan(payload, offset, end, state))
        else:
            _read_definitions(code, payload, state)
    return [scan for scan in scans if scan]


def _read_definitions(code: int, payload: bytes, state: _State) -> None:
    if code in _FRAMES:
        state.progressive = code == 0xC2
        for name, sampling, table in zip(payload[6::3], payload[7::3], payload[8::3], strict=False):
            state.sampling[name] = ((sampling >> 4) * (sampling & 15), table)
    elif code == _DHT:
        state.codes.update(_read_codes(payload))
    elif code == _DQT:
        state.steps.update(_read_steps(payload))


def _read_codes(payload: bytes) -> Iterator[tuple[int, Codes]]:
    """Reads Huffman tables; the first code of a table is that of zeros (T.81, annex C)."""
    while len(payload) > 17:
        counts = payload[1:17]
        symbols = payload[17 : 17 + sum(counts)]
        length = next((n for n, count in enumerate(counts, 1) if count), 0)
        if length and symbols:
            yield payload[0], Codes(symbols[0], length, symbols)
        payload = payload[17 + sum(counts) :]


def _read_steps(payload: bytes) -> Iterator[tuple[int, int]]:
    """Reads the steps of the mean, the first of a quantisation table's 64."""
    while len(payload) > 2:
        width = 2 if payload[0] >> 4 else 1
        yield payload[0] & 15, int.from_bytes(payload[1 : 1 + width], "big")
        payload = payload[1 + 64 * width :]


def _read_scan(payload: bytes, start: int, end: int, state: _State) -> Scan | None:
    count = payload[0] if payload else 0
    if not 1 <= count <= 4 or len(payload) != 4 + 2 * count:
        return None
    components = []
    for name, tables in zip(payload[1 : 1 + 2 * count : 2], payload[2::2], strict=False):
        blocks, table = state.sampling.get(name, (1, -1))
        components.append(
            Component(
                name=name,
                blocks=blocks if count > 1 else 1,
                dc_step=state.steps.get(table, 0),
                dc=state.codes.get(tables >> 4),
                ac=state.codes.get(0x10 + (tables & 15)),
            )
        )
    first, last, bits = payload[-3:]
    return Scan(
        start=start,
        end=end,
        progressive=state.progressive,
        first=first,
        last=last,
        is_refined=bits >> 4 > 0,
        shift=bits & 15,
        components=tuple(components),
    )
