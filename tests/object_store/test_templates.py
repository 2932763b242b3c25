"""A Dataflow job with everything in the store, described as for the cloud, and run here."""

import json

import pytest

from image_pipeline.components import files
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.run.engine import choose_engine
from image_pipeline.run.template import AnalysisJob, IngestJob, write_template
from tests.ingest_runs import OPTIONS
from tests.object_store.runs import SIZE_PX, read_tree
from tests.replay import replay

pytestmark = [pytest.mark.beam, pytest.mark.wide]

FLAGS = ("--runner=dataflow", "--project=our-project", "--region=r", "--no_auth")
FLAGS += ("--sdk_container_image=registry/worker:tag", "--temp_location=gs://bucket/tmp")


def test_a_template_in_the_store_writes_what_the_local_runs_write(places, graphs, store):
    view = ViewOptions(height_px=SIZE_PX, width_px=SIZE_PX)
    options = IngestOptions.model_validate(OPTIONS | {"max_bad_fraction": 0.5})
    path, made = f"{store.uri}/templates/both.json", f"{store.uri}/made"
    write_template(
        f"{made}/data",
        choose_engine([*FLAGS, f"--template_location={path}"]),
        IngestJob(f"{store.uri}/images", options),
        AnalysisJob(f"{made}/graph", view, TransformOptions()),
    )
    environment = json.loads(files.read_file(path))["environment"]
    (pool,) = environment["workerPools"]
    # Nothing of this process: no main session, and no package of this project.
    assert [package["name"] for package in pool["packages"]] == [
        "submission_environment_dependencies.txt"
    ]
    assert files.read_file(f"gs://{pool['packages'][0]['location'].split('/', 1)[1]}")
    staged = environment["sdkPipelineOptions"]["options"]["pipelineUrl"]
    assert staged.startswith("gs://bucket/tmp/")
    assert not _list_files(made)  # Nothing has run.
    assert replay(files.read_file(staged)) == "DONE"
    assert read_tree(f"{made}/data") == read_tree(f"{places['local']}/data")
    assert json.loads(files.read_file(f"{made}/graph/analysis.json")) == graphs["local"]
    assert not [name for name in _list_files(made) if ".scratch" in name or ".work" in name]


def _list_files(root):
    """Without the empty objects that TensorFlow makes for folders."""
    return [name for name in read_tree(root) if name and not name.endswith("/")]
