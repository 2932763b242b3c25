import json

import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training.cluster import Cluster
from image_pipeline.components.training.devices import (
    check_empty_parts,
    find_cluster,
    open_strategy,
    tell_lost,
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
def test_several_machines_need_their_strategy(monkeypatch, strategy):
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    told = f"TF_CONFIG names 3 machines, .* with training.strategy={strategy}: each would train"
    with pytest.raises(UserError, match=told):
        open_strategy(TrainingOptions(strategy=strategy))
    found = find_cluster(TrainingOptions(strategy="multi_worker"))
    assert found == Cluster(("a:1", "b:1", "c:1"), 1)


def test_the_strategy_of_several_machines_needs_them(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    told = "training.strategy=multi_worker trains on several machines, but .* TF_CONFIG names none"
    with pytest.raises(UserError, match=told):
        open_strategy(TrainingOptions(strategy="multi_worker"))


LOST = "Collective ops is aborted by: /job:worker/replica:0/task:1 has crashed"


def test_a_lost_machine_is_told_in_one_sentence():
    told = r"Another machine \(worker 1 of TF_CONFIG\) has ended .* so worker 0 of 2 ends, too: "
    with pytest.raises(UserError, match=told), tell_lost(Cluster(("a:1", "b:1"), 0)):
        raise tf.errors.UnavailableError(None, None, LOST)


@pytest.mark.parametrize(
    ("cluster", "text"), [(Cluster(("a:1", "b:1"), 0), "damaged record"), (None, LOST)]
)
def test_other_errors_are_left_as_they_are(cluster, text):
    with pytest.raises(tf.errors.UnavailableError), tell_lost(cluster):
        raise tf.errors.UnavailableError(None, None, text)
