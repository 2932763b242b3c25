"""A worker that comes back from the dead changes nothing, at whatever stage it died."""

import collections
import contextlib
import pickle
from collections.abc import Iterator

import pytest

from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import prepare, transforms
from image_pipeline.components.ingest.fence import begin_run, check_run
from tests.drawings import write_folder
from tests.ingest_runs import ingest, read_files

pytestmark = pytest.mark.beam


def test_the_last_run_is_the_only_one(tmp_path):
    folder = str(tmp_path / "work")
    first = begin_run(folder)
    check_run(folder, first)
    second = begin_run(folder)
    with pytest.raises(UserError, match=r"Another run has begun in .*work.; let|ends here"):
        check_run(folder, first)
    check_run(folder, second)
    (tmp_path / "work" / "run").unlink()
    with pytest.raises(UserError, match="Another run has ended in"):
        check_run(folder, second)
    check_run(folder, "")


def test_a_run_that_is_refused_leaves_no_folder_and_one_that_fails_keeps_what_it_prepared(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        ingest(tmp_path / "none", tmp_path / "out")
    assert not (tmp_path / "out" / ".work").exists()
    images = write_folder(tmp_path / "images")
    (images / "cat" / "bad.png").write_bytes(b"no image")
    with pytest.raises(UserError, match="1 of 21 files are not usable"):
        ingest(images, tmp_path / "out")
    kept = {path.name for path in (tmp_path / "out" / ".work").iterdir()}
    assert "prepared" in kept and "run" not in kept


STAGES = {
    "list": (transforms, "list_chunks"),
    "prepare": (prepare, "prepare_chunk"),
    "prepare anew": (transforms, "prepare"),
    "plan": (transforms, "plan_shards"),
    "start output": (transforms, "start_output"),
    "shard": (transforms, "write_shard"),
    "manifest": (transforms, "write_manifest"),
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
        write_manifest = transforms.write_manifest

        def comes_back(*arguments):
            _come_back(real, kept)
            met.touch()
            return write_manifest(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(transforms, "write_manifest", comes_back)
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
