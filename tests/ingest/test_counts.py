"""A loss planted at each stage of ingest fails the run, which names the stage."""

import dataclasses

import apache_beam as beam
import pytest

from image_pipeline.components.ingest import run
from image_pipeline.components.ingest.work_folder import WorkFolder
from tests.drawings import write_folder
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam

RealReshuffle, RealToList = beam.Reshuffle, beam.combiners.ToList


class DropFirst(beam.DoFn):
    """Drops one element of a stage that has one worker."""

    def __init__(self):
        self._is_first = True

    def process(self, element):
        if not self._is_first:
            yield element
        self._is_first = False


class Lossy(beam.PTransform):
    """A shuffle or a collection that drops one element, if it has a certain label."""

    def __init__(self, real, where):
        super().__init__()
        self._real, self._where = real, where

    def expand(self, elements):
        moved = elements | "Real" >> self._real()
        return moved | beam.ParDo(DropFirst()) if self.label == self._where else moved


@pytest.fixture
def lose(monkeypatch):
    """Makes the shuffle or collection with a label drop one element."""

    def plant(where):
        monkeypatch.setattr(beam, "Reshuffle", lambda: Lossy(RealReshuffle, where))
        monkeypatch.setattr(beam.combiners, "ToList", lambda: Lossy(RealToList, where))

    return plant


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("SpreadChunks", r"Stage Prepare lost files: 20 in, 0 out; of its chunks \[\] arrived"),
        ("SpreadShards", r"Stage Write lost shards: \[\d(, \d)+\] of 4 arrived"),
        ("CollectChunks", r"Stage Plan lost the list of chunks, or .* none arrived"),
        ("CollectShards", r"Stage WriteManifest lost the list of shards: 1 in, 0 out"),
    ],
)
def test_what_a_shuffle_loses_is_named(tmp_path, lose, where, message):
    images = write_folder(tmp_path / "images")
    output = tmp_path / "out"
    ingest(images, output)  # An earlier run's manifest must not pass for the next one's.
    lose(where)
    with pytest.raises(Exception, match=message):
        ingest(images, output, seed=2)


def test_a_file_that_a_stage_loses_is_named(tmp_path, monkeypatch):
    prepare_chunk = run.prepare_chunk

    def prepare_all_but_one(*arguments):
        chunk = prepare_chunk(*arguments)
        return dataclasses.replace(chunk, found=chunk.found - 1)

    monkeypatch.setattr(run, "prepare_chunk", prepare_all_but_one)
    with pytest.raises(Exception, match=r"Stage Prepare lost files: 20 in, 19 out"):
        ingest(write_folder(tmp_path / "images"), tmp_path / "out")


def test_chunks_that_never_come_out_of_the_list_stage_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "list_chunks", lambda *_: iter(()))
    with pytest.raises(Exception, match=r"Stage Prepare lost files: 20 in, 0 out; .* \[\] arrived"):
        ingest(write_folder(tmp_path / "images"), tmp_path / "out")


def test_a_folder_that_is_never_listed_is_named(tmp_path):
    with pytest.raises(RuntimeError, match="Stage List lost the images folder: 1 in, 0 out"):
        WorkFolder(str(tmp_path)).check_prepared([])


def test_a_run_that_never_finished_is_no_run(tmp_path):
    with pytest.raises(RuntimeError, match="Stage WriteManifest"):
        WorkFolder(str(tmp_path)).read_finished()
