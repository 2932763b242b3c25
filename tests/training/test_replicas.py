"""Several devices learn what one does, from the same batches."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from image_pipeline.components.training.replicas import cut_batches

pytestmark = [pytest.mark.beam, pytest.mark.wide]

SAME = [
    *("plain", "unknown", "weights", "several_steps", "resumed"),
    *("normalised", "convolved", "clipped", "averaged", "regularised"),
]
OTHERS = ["half", "dropout", "summed", "accumulated"]


@pytest.fixture(scope="module")
def found():
    """What each case gave, on one device and on two; the last batch has one record."""
    command = [sys.executable, "-m", "tests.training.on_two_devices", *SAME, *OTHERS]
    env = os.environ | {"TF_ENABLE_ONEDNN_OPTS": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["case"]: line for line in lines}


@pytest.mark.parametrize("case", SAME)
def test_two_devices_learn_as_one_does(found, case):
    one, two = found[case]["none"], found[case]["mirrored"]
    assert {"loss", "accuracy", "val_loss", "val_accuracy", "weights"} == set(one)
    assert two == {key: pytest.approx(value, rel=1e-5, abs=1e-6) for key, value in one.items()}


def test_halves_are_as_close_as_they_can_be(found):
    one, two = found["half"]["none"], found["half"]["mirrored"]
    assert two["loss"] == pytest.approx(one["loss"], rel=5e-3)


def test_each_replica_draws_random_numbers_of_its_own(found):
    one, two = found["dropout"]["none"], found["dropout"]["mirrored"]
    assert two["loss"] != pytest.approx(one["loss"], rel=1e-3)


def test_what_cannot_be_shared_is_refused(found):
    assert "loss" in found["summed"]["none"] and "loss" in found["accumulated"]["none"]
    told = "UserError: training.model=tests.training.device_models.summed has a loss that is not"
    assert found["summed"]["mirrored"].startswith(told)
    told = "UserError: gradient_accumulation_steps cannot be combined with training.strategy"
    assert found["accumulated"]["mirrored"].startswith(told)


def test_each_part_of_a_batch_lies_on_its_device(found):
    assert found["devices"]["found"] == ["CPU:0", "CPU:1"]


def test_a_machines_part_is_cut_for_its_replicas_in_order():
    labels = {"ids": tf.range(7), "names": tf.constant(list("abcdefg"))}
    data = tf.data.Dataset.from_tensor_slices((tf.range(7), labels)).batch(4)
    whole = list(data.as_numpy_iterator())
    parts = list(cut_batches(data, 3).as_numpy_iterator())
    assert [images.tolist() for images, _ in parts] == [[0], [1], [2, 3], [4], [5], [6]]
    assert [each["names"].tolist() for _, each in parts][2:4] == [[b"c", b"d"], [b"e"]]
    assert cut_batches(data, 1) is data and len(whole) == 2
