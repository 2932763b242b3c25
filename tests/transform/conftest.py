"""What tests of the analysis share."""

import pytest

from image_pipeline.components.transform import record_batches, run


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


@pytest.fixture
def decoded(monkeypatch):
    """The stored bytes of images, as they are decoded."""
    taken, real = [], record_batches.view_image

    def view_image(image, *arguments):
        taken.append(bytes(image.encoded))
        real(image, *arguments)

    monkeypatch.setattr(record_batches, "view_image", view_image)
    return taken
