import json

import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training.devices import (
    check_empty_parts,
    check_no_cluster,
    open_strategy,
)

pytestmark = pytest.mark.beam


def test_without_a_strategy_there_is_none():
    assert open_strategy(TrainingOptions()) is None


def test_one_device_is_told(caplog):
    strategy = open_strategy(TrainingOptions(strategy="mirrored"))
    assert strategy.num_replicas_in_sync == 1
    assert "training.strategy=mirrored has one device only" in caplog.text
    # Two of them would number their collective operations alike.
    assert open_strategy(TrainingOptions(strategy="mirrored")) is strategy


@pytest.mark.parametrize("channels", [1, 2])
def test_convolutions_that_misshape_no_records_are_refused(monkeypatch, channels):
    # oneDNN gives the input's one channel instead of two.
    monkeypatch.setattr(tf.nn, "conv2d", lambda *_: tf.zeros([0, 1, 1, channels]))
    if channels == 2:
        check_empty_parts()
        return
    with pytest.raises(UserError, match=r"several CPUs .* environment variable TF_ENABLE_ONEDNN_O"):
        check_empty_parts()


@pytest.mark.parametrize("strategy", ["none", "mirrored"])
def test_several_machines_are_refused(monkeypatch, strategy):
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    with pytest.raises(UserError, match="TF_CONFIG names 3 machines, but training runs on the"):
        open_strategy(TrainingOptions(strategy=strategy))


@pytest.mark.parametrize("value", ["", "{}", '{"cluster": {"chief": ["a:1"]}}'])
def test_one_machine_or_none_is_no_cluster(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    check_no_cluster()


@pytest.mark.parametrize("value", ["[1]", "worker", '{"cluster": [1]}', '{"cluster": {"a": 1}}'])
def test_what_is_no_cluster_is_told(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(UserError, match="TF_CONFIG must be a JSON object"):
        check_no_cluster()
