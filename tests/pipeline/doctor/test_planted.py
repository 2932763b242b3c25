"""Bottlenecks that are planted, and which the doctor must name."""

import json
import time

import pytest

from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.views import fast_decode
from tests.pipeline.test_commands import call

pytestmark = [pytest.mark.beam, pytest.mark.wide]

SMALL = ("--set", "view.height_px=8", "--set", "view.width_px=8", "--set", "feeding.batch_size=8")
# Longer than whatever else the machine may do meanwhile.
DELAY_S = 0.1
DECODED_EACH_TIME = ("--set", "feeding.hold_decoded=false")


def examine(folder, *arguments):
    result, output = call("doctor", folder, *SMALL, "--seconds", "0.3", "--json", *arguments)
    assert result.exit_code == 0, output
    return json.loads(result.stdout)


def slow_down(function, seconds):
    """The same function, which takes so much longer."""

    def slow(*arguments, **named):
        time.sleep(seconds)
        return function(*arguments, **named)

    return slow


def test_a_slow_disk(data_dir, monkeypatch):
    monkeypatch.setattr(StoredRecords, "read", slow_down(StoredRecords.read, DELAY_S))
    found = examine(data_dir, "--step-ms", "1", *DECODED_EACH_TIME)
    assert found["verdict"]["limit"] == "read"
    assert found["line"].startswith("Reading from the disk limits: the model waits ")
    assert "hold_decoded=true" in found["changes"][0]["text"]
    assert found["changes"][0]["gain"] > 1


def test_slow_decoding(data_dir, monkeypatch):
    monkeypatch.setattr(fast_decode, "_decode_png", slow_down(fast_decode._decode_png, DELAY_S))
    found = examine(data_dir, "--step-ms", "1", *DECODED_EACH_TIME)
    assert found["verdict"]["limit"] == "decode"
    # Later epochs do not decode: once they are held, something else limits.
    held = examine(data_dir, "--step-ms", "1")
    assert held["verdict"]["limit"] != "decode"
    assert set(held["stages"]["held"]) == {"views", "augment"}


def test_slow_random_steps(data_dir):
    step = "tests.pipeline.doctor.steps.burn"
    augment = f"feeding.augment=[random_resized_crop, {step}]"
    found = examine(data_dir, "--step-ms", "1", "--set", augment)
    assert found["verdict"]["limit"] == "augment"
    assert found["line"].startswith("The random steps (augment) limit: the model waits ")
    assert any(step in each["text"] for each in found["changes"])


def test_a_slow_step(data_dir):
    found = examine(data_dir, "--step-ms", "1000")
    assert found["verdict"]["limit"] == "step"
    assert found["line"].startswith("The model's step limits: it waits ")
    assert found["changes"] == []
    assert found["stages"]["step"]["images_per_s"] == 8
