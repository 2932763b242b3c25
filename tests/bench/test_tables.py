"""Tables and ratios from raw results that are small enough to work out by hand."""

import pytest

from benchmarks.bench.__main__ import compare, list_commands
from benchmarks.bench.figures import list_ratios
from benchmarks.bench.tables import tabulate_growth, tabulate_read, tabulate_write

pytestmark = [pytest.mark.unit, pytest.mark.wide]


def _reader(*cpu_s, faults=()):
    rounds = [{"images": 100, "wall_s": 0.5, "cpu_s": cpu, "peak_mb": 1234.4} for cpu in cpu_s]
    return {"imported_mb": 10, "faults": list(faults), "rounds": rounds}


READ = {
    "tasks": {
        "val_raw": {
            "ours": _reader(0.2, 0.4, 0.3),
            "slow": _reader(0.4, 0.4, 0.4, faults=["mean is off"]),
            "gone": _reader(faults=["it ended: no"]),
        }
    },
    "left_out": {"absent": "no such package"},
}


def test_readers_are_sorted_and_faults_shown():
    lines = tabulate_read(READ)
    rows = [line for line in lines if line.startswith("| ")]
    assert rows[2] == "| **ours** | 3.0000 | 200 | 1,234 | – | yes |"
    assert rows[3] == "| slow | 4.0000 | 200 | 1,234 | 0.75 | mean is off |"
    assert "- gone: it ended: no" in lines and "- absent: no such package" in lines
    assert "**validation, raw 256 px → 224** (`val_raw`), 100 images" in lines


def test_writers_with_their_bytes():
    rounds = {"images": 10, "wall_s": 2.0, "cpu_s": 1.0, "bytes": 50_000}
    other = rounds | {"cpu_s": 4.0}
    results = {"images": 10, "writers": {"other": [other], "ours": [rounds]}, "left_out": {}}
    assert tabulate_write(results)[-2:] == [
        "| **ours** | 100.00 | 5 | 5.0 | – |",
        "| other | 400.00 | 5 | 5.0 | 0.25 |",
    ]


def test_growth_is_projected():
    rounds = [
        {"size": size, "images": 100 * size, "wall_s": 1 + 0.1 * size, "cpu_s": 0.2 * size}
        for size in (1, 3, 10)
    ]
    lines = tabulate_growth({"photos": 100, "stages": {"ingest": rounds, "epoch": rounds}})
    assert "| ingest | 1.10 | 1.30 | 2.00 | 1.000 | 1.00 | 2.000 | 0.00 | 0% |" in lines
    assert lines[-2] == "| ingest | 21 min | 3 min | 21 s |"  # 1 + 1,281.167 / workers seconds
    assert lines[-1] == "| epoch | 21 min | – | – |"


def test_no_line_is_no_projection():
    rounds = [{"size": n, "images": n, "wall_s": 9 - n, "cpu_s": 1.0} for n in (1, 3)]
    lines = tabulate_growth({"photos": 1, "stages": {"ingest": rounds}})
    assert lines[-1] == "| ingest | – | – | – |"


def test_ratios_stand_beside_committed_ones():
    raw = {"read": {"results": READ}}
    ratios = list_ratios(raw)
    assert ratios == {"val_raw: ours / slow": pytest.approx(0.75)}
    lines = compare(ratios | {"new": 2.0}, ratios).splitlines()
    assert lines[1].split()[-2:] == ["0.75", "0.75"]
    assert lines[2].split() == ["new", "2.00", "–"]


def test_commands_need_their_data():
    assert list(list_commands(None, None)) == ["order"]
    assert "end_to_end" not in list_commands("photos", None)
    small = list_commands(None, "small")
    assert "write" not in small and "small/train" in small["read"]
