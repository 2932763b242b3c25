"""A worker of an earlier run that wakes up late changes nothing, whatever stage it was in."""

import collections
import contextlib
import pickle
from collections.abc import Iterator

import pytest

from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import run
from tests.drawings import write_folder
from tests.ingest_runs import ingest, read_files

pytestmark = pytest.mark.beam


STAGES = {
    "list": (run, "list_chunks"),
    "prepare": (run, "prepare_chunk"),
    "prepare again": (run, "prepare_listed"),
    "plan": (run, "plan_shards"),
    "start output": (run, "start_output"),
    "shard": (run, "write_shard"),
    "manifest": (run, "write_manifest"),
}


@pytest.mark.whole
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("is_over", [False, True], ids=["another is running", "another is over"])
def test_a_worker_that_comes_back_changes_nothing(tmp_path, monkeypatch, stage, is_over):
    """The stage's call of a first run is made again after, or while, a second run has written."""
    images, out = write_folder(tmp_path / "images", per_class=20), tmp_path / "out"
    module, name = STAGES[stage]
    real, kept, met = getattr(module, name), tmp_path / "arguments", tmp_path / "met"

    def dies(*arguments):  # Beam calls a copy of it, so it leaves a file.
        kept.write_bytes(pickle.dumps(arguments))
        raise UserError("taken for dead")

    with monkeypatch.context() as patched:
        patched.setattr(module, name, dies)
        with pytest.raises(UserError, match="taken for dead"):
            ingest(images, out, seed=1)
    if is_over:
        ingest(images, out, seed=2)
        _come_back(real, kept)
    else:
        write_manifest = run.write_manifest

        def comes_back(*arguments):
            _come_back(real, kept)
            met.touch()
            return write_manifest(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(run, "write_manifest", comes_back)
            ingest(images, out, seed=2)
        assert met.exists()
    ingest(images, tmp_path / "fresh", seed=2)
    assert read_files(out) == read_files(tmp_path / "fresh")
    assert verify_data_set(str(out)) == []


def _come_back(real, kept):
    """Makes the call; most stages say that another run has begun, and none needs to."""
    with contextlib.suppress(UserError):
        found = real(*pickle.loads(kept.read_bytes()))
        collections.deque(found if isinstance(found, Iterator) else (), maxlen=0)
