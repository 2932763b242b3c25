"""What tests of the analysis share."""

import pytest

from image_pipeline.components.transform import run


@pytest.fixture
def read_shards(tmp_path, monkeypatch):
    """Returns the shards that were analysed since it was asked last; Beam pickles what it runs."""
    log, real = tmp_path / "read.log", run.read_view_batches

    def read_and_log(shard, *arguments):
        with open(log, "a") as file:
            file.write(f"{shard}\n")
        return real(shard, *arguments)

    def take():
        shards = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return shards

    monkeypatch.setattr(run, "read_view_batches", read_and_log)
    return take
