"""The lines of a run's summary that tell of the transform graph and of training."""

import io

import pytest
from rich.console import Console

from pipeline.summary import print_summary

pytestmark = pytest.mark.unit

CLASSES = [{"name": "cat", "records": 6}, {"name": "dog", "records": 3}]


def _print(constant_channels, classes, training=None, **further):
    summary = {
        "spans": [0],
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
        "training": {"steps": 3, "epochs": 1, "input_wait": None} | (training or {}),
        "evaluation": {"overall": {"accuracy": 0.5}, "worst_class": None},
        "blessed": False,
        "paths": {},
        **further,
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
    assert "waited" not in text and "trace" not in text


def test_the_share_of_waiting_is_told():
    lines = _print([], [], {"input_wait": {"share": 0.0312}}).splitlines()
    assert "waited for input         3.1% of training's time" in lines


def test_where_the_profile_is_and_its_slowest_operations_are_told():
    op = {"name": "conv", "kind": "Conv2D", "where": "/host:CPU", "calls": 1200, "self_ms": 10.0}
    profile = {"folder": "out/[run]", "size_bytes": 1.5e6, "steps": 2, "slowest": [op]}
    text = _print([], [], profile=profile)
    assert "The trace of 2 steps (1.5 MB) is in out/[run]: tensorboard --logdir shows it" in text
    assert f"     10.0 ms  1,200 x  {'Conv2D':<28} conv\n" in text
