"""A Dataflow job described offline, and the description run here."""

import json
import pathlib
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.beam.flags import make_pipeline
from image_pipeline.components.dataset.paths import SOURCES
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests import warm
from tests.drawings import write_folder
from tests.ingest_runs import OPTIONS, ingest
from tests.replay import replay

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

COMPILE = ("-c", "from image_pipeline.cli import main; main()", "compile", "--runner=dataflow")
CLOUD = ("--project=our-project", "--region=r", "--sdk_container_image=registry/worker:tag")
OFFLINE = ("--no_auth", "--dataflow_endpoint=http://localhost:9")
VIEW = ViewOptions(height_px=8, width_px=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images, and what ingest and the analysis make of them here."""
    folder = tmp_path_factory.mktemp("template")
    ingest(write_folder(folder / "images"), folder / "local-data")
    places = (str(folder / "local-data"), str(folder / "local-graph"))
    run_analysis(*places, VIEW, TransformOptions(), lambda: make_pipeline(LOCAL_BEAM_ARGS))
    return folder


@pytest.fixture(scope="module")
def both(folder):
    """Where ingest and the analysis are one template."""
    _stage(folder, "both", images="images", output="data", graph="graph")
    return folder


def test_a_template_of_ingest_and_analysis_writes_what_the_local_runs_write(both):
    assert not (both / "data").exists() and not list((both / "graph").iterdir())  # Nothing ran.
    for _ in range(2):  # A template is started again and again.
        assert replay((both / "both" / "pipeline.pb").read_bytes()) == "DONE"
        assert _read_all(both / "data") == _read_all(both / "local-data")
        _check_graphs(both / "graph", both / "local-graph")


def test_its_description_is_what_dataflows_documents_ask_for(both):
    template = json.loads((both / "both" / "template.json").read_text())
    environment = template["environment"]
    (pool,) = environment["workerPools"]
    assert template["type"] == "JOB_TYPE_BATCH" and template["labels"] == {"team": "vision"}
    assert environment["tempStoragePrefix"] == str(both / "both")
    assert environment["version"]["job_type"] == "FNAPI_BATCH"
    assert {"use_runner_v2", "no_use_multiple_sdk_containers"} <= {*environment["experiments"]}
    assert pool["machineType"] == "n2-standard-4" and pool["diskSizeGb"] == 50
    assert pool["autoscalingSettings"] == {
        "algorithm": "AUTOSCALING_ALGORITHM_BASIC",
        "maxNumWorkers": 20,
    }
    images = {image["containerImage"] for image in pool["sdkHarnessContainerImages"]}
    assert images == {"registry/worker:tag"}
    for package in pool["packages"]:
        assert pathlib.Path(package["location"]).is_file()
    options = environment["sdkPipelineOptions"]["options"]
    assert options["pipelineUrl"] == str(both / "both" / "pipeline.pb")
    assert not options.get("save_main_session") and options["pickle_library"] == "cloudpickle"


def test_an_analysis_reads_the_data_set_that_is_there_when_it_runs(folder):
    data, graph = folder / "later", folder / "later-graph"
    ingest(folder / "images", data, shards=1)
    _stage(folder, "analysis", output="later", graph="later-graph")
    (data / "manifest.json").unlink()
    ingest(folder / "images", data, shards=2)
    assert replay((folder / "analysis" / "pipeline.pb").read_bytes()) == "DONE"
    _check_graphs(graph, folder / "local-graph")


def test_workers_with_other_code_are_refused(both, monkeypatch):
    name = "image_pipeline.run.template.code_version"
    monkeypatch.setattr(name, lambda *rooms: "0123456789abcdef")
    with pytest.raises(UserError, match=r"a different version of this project \(0123456789abcdef"):
        replay((both / "both" / "pipeline.pb").read_bytes())


@pytest.mark.parametrize(
    ("images", "output", "graph", "wrong"),
    [
        ("/images", "gs://bucket/out", None, "--images=/images"),
        ("gs://bucket/i", "out", None, "--output=out"),
        (None, "gs://bucket/out", "graph", "--graph=graph"),
    ],
)
def test_a_template_for_the_cloud_takes_no_local_folder(images, output, graph, wrong):
    done = _compile("gs://bucket/t", images=images, output=output, graph=graph)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {wrong}: Dataflow's machines cannot read")


def test_a_template_is_for_one_folder():
    done = _compile("gs://bucket/t", images="gs://bucket/day-{SPAN}", output="gs://bucket/out")
    assert done.returncode == 2 and "--images must be one folder" in done.stderr


def test_a_template_does_something():
    done = _compile("gs://bucket/t", output="gs://bucket/out")
    assert done.returncode == 2 and "--images to ingest them, --graph to analyse" in done.stderr


def test_a_function_whose_module_no_worker_gets_is_refused(folder, tmp_path):
    package = tmp_path / "other-1.0.zip"
    package.write_bytes(b"PK\5\6" + bytes(18))
    cloud = (*CLOUD[:2], f"--extra_package={package}", f"--temp_location={tmp_path}", *OFFLINE)
    function = "--set=transform.preprocessing_fn=tests.graphs.scale_to_unit"
    places = {"output": str(folder / "local-data"), "graph": str(tmp_path / "graph")}
    done = _compile(str(tmp_path / "t"), function, cloud=cloud, **places)
    assert done.returncode == 1, done.stderr
    assert "its module 'tests' is not in any package that the workers get" in done.stderr


def _stage(folder, name, **places):
    """Describes a job offline: an endpoint on localhost keeps Beam from asking for buckets."""
    staged = folder / name
    staged.mkdir()
    sets = [f"--set=ingest={json.dumps(OPTIONS)}", "--set=dataflow.labels={team: vision}"]
    sets += ["--set=view={height_px: 8, width_px: 8}"]
    cloud = (*CLOUD, f"--temp_location={staged}", f"--staging_location={staged}", *OFFLINE)
    here = {option: str(folder / place) for option, place in places.items()}
    path = staged / "template.json"
    done = _compile(str(path), *sets, cloud=cloud, **here)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"Wrote {path}. It names folders of this machine.\n"


def _compile(template, *sets, cloud=(*CLOUD, "--temp_location=gs://bucket/tmp"), **places):
    where = [f"--{option}={place}" for option, place in places.items() if place is not None]
    command = [*warm.python(), *COMPILE, *where, f"--template={template}", *sets, "--", *cloud]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def _read_all(folder: pathlib.Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != SOURCES)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _check_graphs(found, expected):
    """The same files, and of those that are not a graph's the same bytes; the same outputs."""
    ours, theirs = _read_all(found), _read_all(expected)
    assert ours.keys() == theirs.keys()
    for name in ("analysis.json", "transform_fn/assets/label", "transformed_metadata/schema.pbtxt"):
        assert ours[name] == theirs[name], name
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
    inputs = {contract.IMAGE_INPUT: tf.constant(pixels)}
    inputs[contract.LABEL_INPUT] = tf.constant([b"cat", b"dog"])
    outputs = (TransformGraph(str(each))(inputs) for each in (found, expected))
    for one, other in zip(*outputs, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
