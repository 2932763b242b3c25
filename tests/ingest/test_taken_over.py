"""An execution whose working folder another one took, or ended in, can be run again."""

import pytest
from tfx.types import standard_artifacts

from image_pipeline.components import files
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import transforms
from image_pipeline.components.ingest.component import ImageExampleGen, ImageExampleGenExecutor
from image_pipeline.components.meaning.options import IngestOptions
from tests.drawings import write_folder
from tests.ingest_runs import read_files

pytestmark = pytest.mark.e2e


def test_a_failed_ingest_is_run_again_and_the_folder_is_gone(tmp_path, monkeypatch):
    images = write_folder(tmp_path / "images")
    working, plan_shards = tmp_path / "working", transforms.plan_shards

    def execute(output):
        examples = standard_artifacts.Examples()
        examples.uri = str(tmp_path / output)
        gen = ImageExampleGen(str(images), IngestOptions(shards=2), work_root=str(working))
        context = ImageExampleGenExecutor.Context(beam_pipeline_args=[*LOCAL_BEAM_ARGS])
        ImageExampleGenExecutor(context).Do({}, {"examples": [examples]}, gen.exec_properties)
        return read_files(tmp_path / output)

    def plan_late(prepared, work_dir, options):
        files.delete_tree(work_dir)  # As a run does that ends first.
        return plan_shards(prepared, work_dir, options)

    monkeypatch.setattr(transforms, "plan_shards", plan_late)
    with pytest.raises(UserError, match="Another run has ended in"):
        execute("first")
    monkeypatch.undo()
    again, other = execute("first"), execute("second")
    assert again == other and len(again) >= 6
    assert list(working.iterdir()) == []
