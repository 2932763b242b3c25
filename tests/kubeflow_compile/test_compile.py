import json
import logging
import pathlib
import subprocess
import sys

import kfp
import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.config import load_config
from image_pipeline.engine_options import STEPS as STEPS_WITH_OPTIONS
from tests.kubeflow_compile.conftest import SCRIPT

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

RUN_EXECUTOR = "image_pipeline.kubeflow.step"
BEAM_ARGS = ["--runner=FnApiRunner", "--direct_running_mode=in_memory"]
WHERE = {"images_dir": "gs://b/images", "pipeline_root": "gs://b/root", "push_dir": "gs://b/push"}

# Each step and the steps that it waits for.
EXPECTED_STEPS = {
    "ImageExampleGen": [],
    "StatisticsGen": ["ImageExampleGen"],
    "SchemaGen": ["StatisticsGen"],
    "ExampleValidator": ["SchemaGen", "StatisticsGen"],
    "ImageTransform": ["ImageExampleGen"],
    "Trainer": ["ImageExampleGen", "ImageTransform"],
    "Evaluator": ["ImageExampleGen", "Trainer"],
    "Pusher": ["Evaluator", "Trainer"],
}


@pytest.fixture(scope="module")
def compiled(script, tmp_path_factory):
    """Compiles with the overrides given: the path of the file and what the function returned."""
    folder = tmp_path_factory.mktemp("compiled")

    def compile_with(*overrides: str, name: str = "pipeline.yaml", **changes):
        path = str(folder / name)
        arguments = {**WHERE, "image": "registry/name:tag", "beam_args": BEAM_ARGS, **changes}
        return path, script.compile_pipeline(
            load_config(None, overrides), output_path=path, **arguments
        )

    return compile_with


@pytest.fixture(scope="module")
def spec(compiled) -> dict:
    path, _ = compiled("ingest.shards=7")
    return yaml.safe_load(pathlib.Path(path).read_text())


def constants(spec: dict, step: str) -> dict:
    """The parameters of a step that are known before a run."""
    parameters = spec["root"]["dag"]["tasks"][step]["inputs"]["parameters"]
    return {
        key: value["runtimeValue"]["constant"]
        for key, value in parameters.items()
        if "runtimeValue" in value
    }


def test_predictions_for_further_images_are_a_step_of_their_own(compiled):
    path, _ = compiled("inference.images=gs://b/more", name="predicting.yaml")
    spec = yaml.safe_load(pathlib.Path(path).read_text())
    step = spec["root"]["dag"]["tasks"]["ImagePredictor"]
    assert sorted(step["dependentTasks"]) == ["Evaluator", "Trainer"]
    assert json.loads(constants(spec, "ImagePredictor")["options"])["images"] == "gs://b/more"


def test_every_step_waits_for_the_steps_whose_outputs_it_takes(spec):
    tasks = spec["root"]["dag"]["tasks"]
    assert {
        name: sorted(task.get("dependentTasks", [])) for name, task in tasks.items()
    } == EXPECTED_STEPS
    reused = {name for name, task in tasks.items() if task["cachingOptions"]["enableCache"]}
    assert reused == EXPECTED_STEPS.keys() - {"ImageExampleGen"}  # Images change under their name.


def test_every_step_is_a_container_with_our_image_and_beam_flags(spec):
    executors = spec["deploymentSpec"]["executors"]
    assert executors.keys() == {f"{step}_executor" for step in EXPECTED_STEPS}
    for executor in executors.values():
        container = executor["container"]
        assert container["image"] == "registry/name:tag"
        assert container["command"] == ["python", "-m", RUN_EXECUTOR]
        assert container["args"][-2:] == BEAM_ARGS


def test_steps_name_their_executors(spec):
    executors = spec["deploymentSpec"]["executors"]
    for step, path in {
        "ImageExampleGen": "image_pipeline.components.ingest.component.ImageExampleGenExecutor",
        "ImageTransform": "image_pipeline.components.transform.component.ImageTransformExecutor",
        "StatisticsGen": "image_pipeline.components.beam.tfx_components.StatisticsGenExecutor",
        "Evaluator": "image_pipeline.components.evaluation.component.EvaluatorExecutor",
    }.items():
        arguments = executors[f"{step}_executor"]["container"]["args"]
        assert arguments[arguments.index("--executor_class_path") + 1] == path


def test_ingest_gets_the_configs_options(spec):
    parameters = constants(spec, "ImageExampleGen")
    expected = load_config(None, ["ingest.shards=7"]).ingest
    assert IngestOptions.model_validate_json(parameters["options"]) == expected
    assert parameters["options"] == expected.to_json()


@pytest.mark.parametrize(
    ("root", "places"),
    [
        ("gs://b/root", ("gs://b/root/working", "gs://b/root/data")),
        ("minio://b/root?region=x", ("minio://b/root/working", "minio://b/root/data")),
        ("/shared/root", ("/shared/root/working", "")),
    ],
)
def test_below_a_root_in_a_store_data_sets_have_a_place_of_their_own(compiled, root, places):
    parameters = constants(compiled(pipeline_root=root)[1]["pipelineSpec"], "ImageExampleGen")
    assert (parameters["work_root"], parameters["data_root"]) == places


@pytest.mark.parametrize(
    ("root", "path", "expected"),
    [
        ("az://b/root", "p.yaml", "must be at gs:// or s3:// or minio:// for Kubeflow, got 'az:"),
        ("s3://b/root", "p.json", "must be at gs:// for Vertex AI, got 's3://b/root'"),
    ],
)
def test_a_root_that_the_engine_does_not_know_is_refused(script, tmp_path, root, path, expected):
    where = {**WHERE, "pipeline_root": root, "image": "n", "output_path": str(tmp_path / path)}
    with pytest.raises(UserError, match=expected):
        script.compile_pipeline(load_config(None), **where)
    assert not list(tmp_path.iterdir())


def test_beams_work_goes_elsewhere_only_where_its_workers_can_write(compiled):
    flink = ["--runner=FlinkRunner", "--flink_master=flink:8081"]
    ingest = f"kubeflow.steps.ImageExampleGen.beam_args={json.dumps(flink)}"
    _, job = compiled(ingest, pipeline_root="s3://b/root")
    executors = job["pipelineSpec"]["deploymentSpec"]["executors"]
    assert executors["ImageExampleGen_executor"]["container"]["args"][-2:] == flink
    with pytest.raises(
        UserError, match=r"StatisticsGen must run Beam in its own pod, got --runner=F"
    ):
        compiled(pipeline_root="s3://b/root", beam_args=flink)


def test_trainer_and_pusher_get_theirs(spec):
    assert (
        constants(spec, "Trainer")["run_fn"] == "image_pipeline.components.training.trainer.run_fn"
    )
    destination = json.loads(constants(spec, "Pusher")["push_destination"])
    assert destination["filesystem"]["base_directory"] == WHERE["push_dir"]


PARAMETERS = {
    "images": WHERE["images_dir"],
    "images-span": "latest",
    "images-fingerprint": "",
    "models": WHERE["push_dir"],
    **dict.fromkeys(("ingest", "view", "transform", "feeding", "training", "evaluation"), ""),
}


def test_a_run_needs_no_parameter_and_may_change_these(spec):
    assert spec["root"]["inputDefinitions"]["parameters"] == {
        name: {"parameterType": "STRING", "defaultValue": text} for name, text in PARAMETERS.items()
    }
    given = spec["root"]["dag"]["tasks"]["ImageExampleGen"]["inputs"]["parameters"]
    for name, parameter in {
        "images_dir": "images",
        "span": "images-span",
        "fingerprint": "images-fingerprint",
    }.items():
        assert given[name] == {"componentInputParameter": parameter}


def test_where_ingests_output_is_reused_each_run_must_say_which_images_it_means(compiled):
    _, job = compiled("kubeflow.steps.ImageExampleGen.caching=true")
    root = job["pipelineSpec"]["root"]
    # No default, so the engine refuses a run without it instead of reusing an old ingest.
    assert root["inputDefinitions"]["parameters"]["images-fingerprint"] == {
        "parameterType": "STRING"
    }
    assert root["dag"]["tasks"]["ImageExampleGen"]["cachingOptions"] == {"enableCache": True}


def test_a_service_account_is_the_runs_and_not_the_pipelines(compiled):
    assert compiled("kubeflow.service_account=trainer")[1] == compiled()[1]


def test_a_window_of_spans_is_refused(compiled):
    with pytest.raises(
        UserError, match=r"spans\.window=3 needs TFX's metadata, in which this mach"
    ):
        compiled("spans.window=3", images_dir="gs://b/{SPAN}")


def test_the_baseline_is_found_by_the_engine(compiled):
    _, job = compiled("evaluation.min_improvement=0")
    tasks = job["pipelineSpec"]["root"]["dag"]["tasks"]
    assert tasks.keys() - EXPECTED_STEPS.keys() == {
        "BaselineResolver-model-resolver",
        "BaselineResolver-model-blessing-resolver",
    }
    assert "baseline_model" in tasks["Evaluator"]["inputs"]["artifacts"]


def test_what_a_run_needs_to_know_is_in_the_spec(spec):
    assert spec["defaultPipelineRoot"] == WHERE["pipeline_root"]
    assert spec["pipelineInfo"] == {"name": "image-pipeline"}
    assert spec["schemaVersion"] == "2.1.0"


def test_yaml_and_json_are_read_as_the_engines_messages(compiled):
    yaml_path, job = compiled()
    spec = yaml.safe_load(pathlib.Path(yaml_path).read_text())
    parsed = json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
    assert set(parsed.root.dag.tasks) == EXPECTED_STEPS.keys()

    json_path, _ = compiled(name="pipeline.json")
    written = json.loads(pathlib.Path(json_path).read_text())
    assert written == job
    assert written["pipelineSpec"] == spec
    parsed_job = json_format.ParseDict(written, pipeline_spec_pb2.PipelineJob())
    assert parsed_job.runtime_config.gcs_output_directory == WHERE["pipeline_root"]


def test_compiling_twice_gives_the_same_bytes(compiled):
    first = pathlib.Path(compiled(name="first.yaml")[0]).read_bytes()
    assert pathlib.Path(compiled(name="second.yaml")[0]).read_bytes() == first


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("ingest.seed=1", {"ImageExampleGen"}),
        ("view.height_px=64", {"ImageTransform", "Trainer"}),
        ("feeding.batch_size=5", {"Trainer"}),
        ("training.epochs=3", {"Trainer"}),
        ("evaluation.min_accuracy=0.9", {"Evaluator"}),
    ],
)
def test_an_option_changes_the_steps_that_it_concerns(compiled, override, changed):
    before, after = (compiled(*overrides)[1]["pipelineSpec"] for overrides in [(), (override,)])
    differing = {
        step for step in EXPECTED_STEPS if constants(before, step) != constants(after, step)
    }
    assert differing == changed


def test_an_unknown_ending_is_an_error(compiled):
    with pytest.raises(UserError, match=r"must end in \.yaml, \.yml or \.json, got '.*\.txt'"):
        compiled(name="pipeline.txt")


def test_the_command_line_compiles(script, tmp_path, capfd, monkeypatch):
    # It closes the stream that absl's handler has met first, which here is pytest's.
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    arguments = ["--images=gs://i", "--root=gs://r", "--push=gs://p", "--image=registry/name:tag"]
    path = tmp_path / "pipeline.yaml"
    flags = ["--set=name=cats", f"--output={path}", "--", "--runner=FlinkRunner"]
    script.compile_command(arguments + flags, standalone_mode=False)
    output = capfd.readouterr().out
    assert "8 steps" in output and "Parameters of a run: images, images-span," in output
    assert "Each run must give" not in output
    spec = yaml.safe_load(path.read_text())
    assert spec["pipelineInfo"]["name"] == "cats"
    executors = spec["deploymentSpec"]["executors"].values()
    assert {each["container"]["args"][-1] for each in executors} == {"--runner=FlinkRunner"}


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--set=training.epoch=3", "did you mean epochs?"),
        ("--output=/dev/null/pipeline.txt", "must end in .yaml"),
    ],
)
def test_a_persons_mistake_is_one_message(tmp_path, flag, message):
    arguments = ["--images=i", "--root=r", "--push=p", "--image=n", "--output=pipeline.yaml", flag]
    result = subprocess.run(
        [sys.executable, SCRIPT, *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 1
    assert result.stderr.startswith("Error: ") and message in result.stderr
    assert "Traceback" not in result.stderr


STEPS = """kubeflow={
  defaults: {cpu: 2, memory: 8Gi, retries: {most: 2}, disk: {size: 50Gi, mount_path: /s3}},
  steps: {
    Trainer: {accelerator: {type: nvidia.com/gpu}, memory: 32Gi, node_selector: {pool: gpu}},
  },
}"""


def test_the_steps_options_are_in_the_yaml_that_kfp_loads(compiled):
    path, _ = compiled(STEPS)
    spec, platform = yaml.safe_load_all(pathlib.Path(path).read_text())
    loaded = kfp.components.load_component_from_file(path)
    assert loaded.pipeline_spec == json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
    assert loaded.platform_spec == json_format.ParseDict(platform, pipeline_spec_pb2.PlatformSpec())
    for step in EXPECTED_STEPS:
        resources = spec["deploymentSpec"]["executors"][f"{step}_executor"]["container"][
            "resources"
        ]
        assert resources["resourceMemoryLimit"] == ("32Gi" if step == "Trainer" else "8Gi")
        assert ("accelerator" in resources) == (step == "Trainer")
        assert spec["root"]["dag"]["tasks"][step]["retryPolicy"]["maxRetryCount"] == 2
    pods = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert pods.keys() == {f"{step}_executor" for step in EXPECTED_STEPS}
    assert pods["Trainer_executor"]["nodeSelector"] == {"labels": {"pool": "gpu"}}


def test_each_step_has_options():
    assert {*STEPS_WITH_OPTIONS} == {*EXPECTED_STEPS, "ImagePredictor"}


def test_vertex_refuses_what_it_has_nothing_like_before_anything_is_written(compiled):
    with pytest.raises(UserError, match="kubeflow sets disk for Evaluator, for which Vertex AI"):
        compiled(STEPS, name="refused.json")


def test_the_steps_options_change_nothing_that_a_step_does(compiled):
    before, after = (compiled(*each)[1]["pipelineSpec"] for each in [(), (STEPS,)])
    for step in EXPECTED_STEPS:
        assert constants(before, step) == constants(after, step)


def test_one_step_does_not_train_on_several_machines(compiled):
    with pytest.raises(UserError, match=r"but a step of a pipeline is one; start kubeflow/tfjob"):
        compiled("training.strategy=multi_worker")
