"""ImageExampleGen in a pipeline of somebody's own: TFX's cache knows when the images changed."""

import pytest
from ml_metadata.proto import metadata_store_pb2
from tfx import v1 as tfx
from tfx.types import standard_artifacts

from image_pipeline.components import files
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import run
from image_pipeline.components.ingest.component import ImageExampleGen, ImageExampleGenExecutor
from image_pipeline.components.ingest.earlier import count_taken
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.tfx_metadata import open_metadata
from tests.drawings import draw, encode_png, write_folder
from tests.ingest_runs import read_files

pytestmark = pytest.mark.e2e

CACHED = metadata_store_pb2.Execution.CACHED


def _run(images, folder):
    """Runs the pipeline; whether its ingest was cached, and how many images its result holds.

    And how many of them it took from the data set of an earlier run.
    """
    database = str(folder / "metadata.db")
    example_gen = ImageExampleGen(str(images), IngestOptions())
    pipeline = tfx.dsl.Pipeline(
        pipeline_name="foreign",
        pipeline_root=str(folder / "root"),
        components=[example_gen],
        enable_cache=True,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            database
        ),
        beam_pipeline_args=list(LOCAL_BEAM_ARGS),
    )
    tfx.orchestration.LocalDagRunner().run(pipeline)
    store = open_metadata(database)
    execution = max(store.get_executions(), key=lambda each: each.id)
    (event,) = store.get_events_by_execution_ids([execution.id])
    (examples,) = store.get_artifacts_by_id([event.artifact_id])
    splits = read_manifest(examples.uri).splits.values()
    held = sum(split.records for split in splits)
    return execution.last_known_state == CACHED, held, count_taken(examples.uri)


def test_a_file_that_was_added_is_ingested_and_nothing_twice(tmp_path):
    images = write_folder(tmp_path / "images")
    assert _run(images, tmp_path) == (False, 20, 0)
    (images / "cat" / "new.png").write_bytes(encode_png(draw(77)))
    assert _run(images, tmp_path) == (False, 21, 20)
    assert _run(images, tmp_path) == (True, 21, 20)


def test_a_new_span_is_the_latest(tmp_path):
    write_folder(tmp_path / "days" / "7")
    days = tmp_path / "days" / "{SPAN}"
    assert _run(days, tmp_path) == (False, 20, 0)
    write_folder(tmp_path / "days" / "8", per_class=11)
    assert _run(days, tmp_path) == (False, 22, 20)
    assert _run(days, tmp_path) == (True, 22, 20)


# An execution whose working folder another one took, or ended in, can be run again.
def test_a_failed_ingest_is_run_again_and_the_folder_is_gone(tmp_path, monkeypatch):
    images = write_folder(tmp_path / "images")
    working, plan_shards = tmp_path / "working", run.plan_shards

    def execute(output):
        examples = standard_artifacts.Examples()
        examples.uri = str(tmp_path / output)
        gen = ImageExampleGen(str(images), IngestOptions(shards=2), work_root=str(working))
        context = ImageExampleGenExecutor.Context(beam_pipeline_args=[*LOCAL_BEAM_ARGS])
        ImageExampleGenExecutor(context).Do({}, {"examples": [examples]}, gen.exec_properties)
        return read_files(tmp_path / output)

    def plan_late(prepared, work, options):
        files.delete_tree(work.path)  # As a run does that ends first.
        return plan_shards(prepared, work, options)

    monkeypatch.setattr(run, "plan_shards", plan_late)
    with pytest.raises(UserError, match="Another run has ended in"):
        execute("first")
    monkeypatch.undo()
    again, other = execute("first"), execute("second")
    assert again == other and len(again) >= 6
    assert list(working.iterdir()) == []
