"""How many shards are written at a time."""

import pickle
import threading

import pytest

from image_pipeline.components.ingest import run
from image_pipeline.components.ingest.run import WriteShards
from image_pipeline.components.ingest.work_folder import WorkFolder

pytestmark = pytest.mark.beam


def _begin(work, data):
    stage = pickle.loads(
        pickle.dumps(WriteShards(WorkFolder(work), data))
    )  # As it reaches a worker.
    stage.start_bundle()
    return stage


def test_two_shards_wait_for_a_store_side_by_side(monkeypatch):
    barrier = threading.Barrier(2, timeout=120)  # Passes only if two threads wait at once.
    monkeypatch.setattr(run, "write_shard", lambda task, *_: (barrier.wait(), task)[1])
    stage = _begin("gs://bucket/work", "gs://bucket/data")
    assert list(stage.process(1)) == []
    assert list(stage.process(2)) == [1]
    assert [written.value for written in _finish_with(stage, barrier)] == [2]


def _finish_with(stage, barrier):
    """Ends a bundle; nothing it holds waits any more."""
    assert barrier.n_waiting == 0
    return stage.finish_bundle()


def test_on_a_local_disk_one_follows_the_other(monkeypatch):
    monkeypatch.setattr(run, "write_shard", lambda task, *folders: (task, folders))
    stage = _begin("/work", "/data")
    assert list(stage.process(1)) == [(1, (WorkFolder("/work"), "/data"))]
    assert list(stage.finish_bundle()) == []


def test_a_shard_that_fails_is_said(monkeypatch):
    monkeypatch.setattr(run, "write_shard", lambda task, *_: 1 // task)
    stage = _begin("gs://bucket/work", "gs://bucket/data")
    assert list(stage.process(0)) == []
    with pytest.raises(ZeroDivisionError):
        list(stage.finish_bundle())


def test_no_shard_is_written_behind_a_failed_run_s_back(monkeypatch):
    may_end, ended = threading.Event(), []

    def write(task, *_):
        if task == 0:
            threading.Timer(0.2, may_end.set).start()
            raise OSError("the store is gone")
        may_end.wait(120)
        ended.append(task)

    monkeypatch.setattr(run, "write_shard", write)
    stage = _begin("gs://bucket/work", "gs://bucket/data")
    assert list(stage.process(0)) == []
    with pytest.raises(OSError, match="the store is gone"):
        list(stage.process(1))
    assert ended == [1]
