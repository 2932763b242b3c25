"""Stages count themselves: what was counted is what there was to do."""

import threading

import pytest

from image_pipeline.components import progress
from image_pipeline.components.ingest.prepare_chunk import prepare_chunk
from image_pipeline.components.ingest.run import list_chunks
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.progress import Progress
from tests.drawings import write_folder

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def nothing_begun():
    progress.end()
    yield
    progress.end()


def test_what_was_begun_is_counted_and_forgotten():
    progress.advance()
    assert progress.look() is None
    progress.begin("images", 10, done=4)
    progress.advance(2, bad=1)
    progress.advance()
    assert progress.look() == Progress("images", 10, done=7, bad=1)
    progress.begin("steps", 3)
    assert progress.look() == Progress("steps", 3)
    progress.end()
    assert progress.look() is None


def test_threads_lose_no_count():
    progress.begin("images", 4000)

    def count():
        for _ in range(1000):
            progress.advance()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert progress.look() == Progress("images", 4000, done=4000)


def test_ingest_counts_images_and_those_quarantined(tmp_path):
    images, work = (
        write_folder(tmp_path / "images", per_class=5),
        WorkFolder(str(tmp_path / "work")),
    )
    (images / "cat" / "bad.png").write_text("text")
    (images / "README").write_text("text")
    for _ in range(2):  # The second time, all is prepared already.
        (chunk,) = list_chunks(str(images), work, IngestOptions())
        assert progress.look() == Progress("images", 12)
        prepare_chunk(work.read_chunk(chunk), str(images), work, IngestOptions(threads=2))
        assert progress.look() == Progress("images", 12, done=12, bad=1, skipped=1)
