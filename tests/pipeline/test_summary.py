"""The lines of a run's summary that tell of the transform graph."""

import io

import pytest
from rich.console import Console

from pipeline.summary import print_summary

pytestmark = pytest.mark.unit

CLASSES = [{"name": "cat", "records": 6}, {"name": "dog", "records": 3}]


def _print(constant_channels, classes):
    summary = {
        "ingest": {
            **dict.fromkeys(("found", "written", "quarantined", "duplicates", "bytes"), 9),
            **dict.fromkeys(("conflicting_labels", "straddling"), 0),
            "near_duplicates": None,
            "splits": {"train": 9},
            "shards": {"train": 1},
            "quarantine_reasons": {},
        },
        "statistics": {"mean": [1.0, 7.0]},
        "constant_channels": constant_channels,
        "classes": classes,
        "training": {"steps": 3, "epochs": 1},
        "evaluation": {"overall": {"accuracy": 0.5}, "worst_class": None},
        "blessed": False,
        "paths": {},
    }
    file = io.StringIO()
    print_summary(summary, Console(file=file, width=200))
    return file.getvalue()


def test_constant_channels_and_classes_are_told():
    lines = _print([1], CLASSES).splitlines()
    assert "constant channels        1: one value everywhere, so divided by 1 (std 1)" in lines
    assert "classes                  2, most cat (6), fewest dog (3)" in lines


def test_what_there_is_not_has_no_line():
    text = _print([], [])
    assert "mean                     1.0000, 7.0000" in text
    assert "constant channels" not in text and "classes" not in text
