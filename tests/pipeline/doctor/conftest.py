import pytest

from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from tests.drawings import write_folder
from tests.ingest_runs import ingest
from tests.pipeline.preview.test_command import STORED, write_metadata
from tests.transform.analyze import make_pipeline


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory):
    """What a run leaves that the doctor needs: a data set, its graph, and TFX's metadata."""
    folder = tmp_path_factory.mktemp("doctor")
    examples = folder / "out/artifacts/ImageExampleGen/examples/1"
    ingest(write_folder(folder / "images", per_class=40), examples)
    graph_dir = folder / "out/artifacts/ImageTransform/transform_graph/2"
    run_analysis(str(examples), str(graph_dir), STORED.view, TransformOptions(), make_pipeline)
    write_metadata(folder / "out/metadata.db", [STORED])
    return folder / "out"


@pytest.fixture(scope="session")
def data_dir(run_dir):
    """The run's data set: about 56 records to train with, 8 x 10 pixels each."""
    return run_dir / "artifacts/ImageExampleGen/examples/1"
