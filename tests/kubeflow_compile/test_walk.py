"""What is submitted, and what is compiled for a store, ends where the local run ends.

No cluster is needed: the API server is a stand-in (`api_server`), and the steps' commands are real
(`walk`), each in the compiled order. What this does not show is the image, the cluster's object
store and its scheduling.
"""

import dataclasses
import hashlib
import json
import pathlib
import subprocess
import sys

import kfp
import numpy as np
import pytest
import tensorflow as tf
import yaml

from image_pipeline.components import files
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.config import PipelineConfig, load_config
from image_pipeline.run.run_plan import RunPlan
from tests import warm
from tests.drawings import encode_png
from tests.kubeflow_compile.api_server import ApiServer, run_api_server
from tests.kubeflow_compile.launcher import ObjectStore
from tests.kubeflow_compile.local import hash_files, run_local
from tests.kubeflow_compile.walk import complete_parameters, fill_in, run_step, walk_pipeline
from tests.object_store.runs import read_tree
from tests.object_store.store import run_store, use_store

pytestmark = [pytest.mark.e2e, pytest.mark.wide]


@dataclasses.dataclass(frozen=True)
class Stored:
    """A walk in a store: where, what was run, each step's artifacts, and all files by names."""

    root: str
    spec: dict
    launcher: ObjectStore
    made: dict
    tree: dict[str, bytes]

    def below(self, uri: str) -> dict[str, bytes]:
        """The files of a folder."""
        folder = f"{uri.removeprefix(f'{self.root}/')}/"
        named = (name for name in self.tree if name.startswith(folder))
        return {name.removeprefix(folder): self.tree[name] for name in named}

    @property
    def examples(self) -> dict:
        """The artifact of the data set."""
        return self.made["ImageExampleGen"]["examples"]

    @property
    def data_set(self) -> dict[str, bytes]:
        """The files of the data set that it points to."""
        return self.below(self.examples["metadata"]["data_set_uri"])


COMMAND = pathlib.Path(sys.executable).parent / "image-pipeline"
# All but the flip is the same in every run; the flip shows that the records' seeds are, too.
CONFIG = """
ingest: {prepare: {encoding: png}, splits: {train: 0.7, eval: 0.3}, seed: 5, shards: 2}
view: {height_px: 16, width_px: 16}
feeding: {batch_size: 8, augment: [flip_horizontal]}
training: {epochs: 3, learning_rate: 0.01}
evaluation: {min_accuracy: 0.0}
"""
# What is submitted, and what its run changes, so that it is the same.
SUBMITTED = """
ingest: {prepare: {encoding: png}, splits: {train: 0.7, eval: 0.3}, shards: 3}
view: {height_px: 16, width_px: 16}
feeding: {batch_size: 8, augment: [flip_horizontal]}
training: {epochs: 9, learning_rate: 0.01}
evaluation: {min_accuracy: 1.0}
kubeflow: {service_account: of-config}
"""
CHANGED = {
    "ingest": "{seed: 5, shards: 2}",
    "training": "epochs: 3",
    "evaluation": '{"min_accuracy": 0}',
}


def submit(folder, host, *more):
    """Runs the command, as a process of its own."""
    command = [*warm.python(), str(COMMAND), "submit", "--image=registry/name:tag"]
    command += [f"--root={folder}/root", f"--config={folder}/submitted.yaml", f"--host={host}"]
    command += [f"--push={folder}/pushed", f"--images={folder}/photos", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=500)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three folders of noise, one of them no span, whose bright channel names the class."""
    folder = tmp_path_factory.mktemp("walk")
    generator = np.random.default_rng(0)
    for part in ("photos", "day-7", "day-8"):
        for channel, name in enumerate(["red", "green"]):
            (folder / part / name).mkdir(parents=True)
            for number in range(24):
                pixels = generator.integers(0, 100, (16, 16, 3), np.uint8)
                pixels[..., channel] += 120
                (folder / part / name / f"{number:02d}.png").write_bytes(encode_png(pixels))
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "submitted.yaml").write_text(SUBMITTED)
    return folder


@pytest.fixture(scope="module")
def spec(folder, script):
    """The pipeline as Kubeflow is given it."""
    script.compile_pipeline(
        load_config(str(folder / "config.yaml")),
        str(folder / "day-7"),
        str(folder / "root"),
        str(folder / "pushed"),
        "registry/name:tag",
        str(folder / "pipeline.yaml"),
        LOCAL_BEAM_ARGS,
    )
    return yaml.safe_load((folder / "pipeline.yaml").read_text())


@dataclasses.dataclass(frozen=True)
class Submitted:
    """What the command said, and what the server then had."""

    done: subprocess.CompletedProcess
    server: ApiServer


@pytest.fixture(scope="module")
def submitted(folder):
    """A run of another folder, another span and other options than the pipeline's."""
    given = {"images": f"{folder}/day-{{SPAN}}", "images-span": "7", "models": f"{folder}/other"}
    parameters = [f"--parameter={name}={text}" for name, text in (given | CHANGED).items()]
    with run_api_server() as server:
        server.states = [{"state": "SUCCEEDED"}]
        return Submitted(submit(folder, server.host, *parameters, "--wait"), server)


@pytest.fixture(scope="module")
def walked(folder, submitted):
    """Each step's artifacts, of the uploaded pipeline with the run's parameters."""
    ((content),) = submitted.server.uploads.values()
    (run,) = submitted.server.made["runs"]
    spec = next(yaml.safe_load_all(content))
    return walk_pipeline(spec, run["runtime_config"]["parameters"], folder / "steps")


@pytest.fixture(scope="module")
def plan(folder):
    """The same images and options, for LocalDagRunner."""
    return RunPlan(
        config=load_config(str(folder / "config.yaml")),
        images_dir=str(folder / "day-7"),
        output_dir=str(folder / "local"),
        fingerprint="today",
        beam_args=tuple(LOCAL_BEAM_ARGS),
    )


@pytest.fixture(scope="module")
def local(plan):
    """Each step's output URIs of that run."""
    return run_local(plan)


def test_the_engines_own_sdk_loads_the_file(folder, spec):
    component = kfp.components.load_component_from_file(str(folder / "pipeline.yaml"))
    assert component.name == PipelineConfig().name
    assert all(each.optional for each in component.component_spec.inputs.values())
    assert set(component.pipeline_spec.root.dag.tasks) == set(spec["root"]["dag"]["tasks"])


def test_no_step_needs_a_hook_that_open_source_kubeflow_ignores(spec):
    containers = [each["container"] for each in spec["deploymentSpec"]["executors"].values()]
    assert len(containers) == 8
    assert all(container.keys() == {"command", "args", "image"} for container in containers)


def test_a_step_finds_the_latest_span_and_says_which(folder, script, local):
    (folder / "spans").mkdir()
    for number in (9, 10):
        (folder / "spans" / f"day-{number}").symlink_to(folder / "day-7")
    job = script.compile_pipeline(
        load_config(str(folder / "config.yaml")),
        str(folder / "spans" / "day-{SPAN}"),
        str(folder / "span_root"),
        str(folder / "span_pushed"),
        "registry/name:tag",
        str(folder / "spans.yaml"),
        LOCAL_BEAM_ARGS,
    )
    spec, step = job["pipelineSpec"], "ImageExampleGen"
    parameters = complete_parameters(spec, {})
    message = fill_in(spec, step, parameters, {}, folder / "span_steps")
    # A step alone imports for itself, as in a container.
    made = run_step(spec, step, message, folder / "span_steps", [sys.executable])
    examples = made["examples"]
    assert examples["metadata"]["custom:span"] == 10  # TFX's way to write a custom property.
    assert hash_files(examples["uri"]) == hash_files(local["ImageExampleGen"]["examples"])


def test_it_says_where_the_run_is_and_waits_for_it(submitted):
    done, host = submitted.done, submitted.server.host
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Started image-pipeline: {host}/#/runs/details/runs-0\nDone.\n"
    (run,) = submitted.server.made["runs"]
    assert run["service_account"] == "of-config"


def test_the_data_set_is_that_of_the_span_and_the_options_of_the_run(walked, local):
    examples = walked["ImageExampleGen"]["examples"]
    assert examples["metadata"]["custom:span"] == 7
    of_steps = hash_files(examples["uri"])
    assert of_steps == hash_files(local["ImageExampleGen"]["examples"])
    shards = [name for name in of_steps if name.startswith("Split-")]
    assert len(shards) == 4 and "manifest.json" in of_steps and "index.parquet" in of_steps


def test_the_model_is_trained_as_the_run_says_and_pushed_where_it_says(walked, plan, local, folder):
    assert not (folder / "pushed").exists()
    (version,) = (folder / "other").iterdir()  # At the accuracy of 1 that was compiled: none.
    (local_version,) = pathlib.Path(plan.folder.pushed_dir).iterdir()
    of_steps, of_local = (tf.saved_model.load(str(path)) for path in (version, local_version))
    assert len(of_steps.weights) > 0
    for one, other in zip(of_steps.weights, of_local.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    images = [path.read_bytes() for path in sorted((folder / "day-7").rglob("*.png"))]
    one, other = (
        model.signatures["serving_default"](image_bytes=tf.constant(images))
        for model in (of_steps, of_local)
    )
    np.testing.assert_array_equal(one["label"].numpy(), other["label"].numpy())
    np.testing.assert_array_equal(one["probabilities"].numpy(), other["probabilities"].numpy())
    assert walked["Evaluator"]["blessing"]["metadata"]["blessed"] == 1


def test_steps_leave_nothing_in_their_working_directories_and_the_working_folder(walked, folder):
    assert list((folder / "steps").glob("*/working_dir/*")) == []
    assert list((folder / "root" / "working").iterdir()) == []


def test_a_schedule_takes_the_latest_span_each_time(folder):
    with run_api_server() as server:
        done = submit(
            folder,
            server.host,
            f"--parameter=images={folder}/day-{{SPAN}}",
            "--recurring=0 3 * * *",
            "--run-name=nightly",
            "--service-account=of-flag",
        )
    page = f"{server.host}/#/recurringrun/details/recurringruns-0"
    assert (done.returncode, done.stdout) == (0, f"Scheduled nightly: {page}\n")
    (sent,) = server.made["recurringruns"]
    assert sent["trigger"] == {"cron_schedule": {"cron": "0 0 3 * * *"}}
    assert sent["runtime_config"] == {"parameters": {"images": f"{folder}/day-{{SPAN}}"}}
    assert sent["service_account"] == "of-flag"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--parameter=training={epoch: 3}"], "training.epoch: unknown key"),
        (["--recurring=daily"], "--recurring is a cron expression"),
        (["--host=http://127.0.0.1:9"], "http://127.0.0.1:9 cannot be reached"),
    ],
)
def test_a_persons_mistake_is_one_message_and_starts_nothing(folder, more, message):
    with run_api_server() as server:
        done = submit(folder, server.host, *more)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("Error: ") and message in done.stderr
    assert "Traceback" not in done.stderr
    assert server.made == {} and server.uploads == {}


@pytest.fixture(scope="module")
def stored(folder, script):
    """The walk with all that is read and written in an S3 bucket: what that holds in the end."""
    (folder / "store").mkdir()
    with run_store(folder / "store") as store, use_store(store):
        root = store.uri.replace("gs://", "s3://")
        for name, content in read_tree(str(folder / "day-7")).items():
            files.write_file(f"{root}/images/{name}", content)
        job = script.compile_pipeline(
            load_config(str(folder / "config.yaml")),
            *(f"{root}/{name}" for name in ("images", "root", "models")),
            "registry/name:tag",
            str(folder / "stored.yaml"),
            LOCAL_BEAM_ARGS,
        )
        launcher, spec = ObjectStore(store.environment), job["pipelineSpec"]
        made = walk_pipeline(spec, {}, folder / "pods", launcher)
        yield Stored(root, spec, launcher, made, read_tree(root))


def test_in_a_store_that_tensorflow_does_not_open_the_data_set_is_the_same(stored, local):
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in stored.data_set.items()}
    assert hashes == hash_files(local["ImageExampleGen"]["examples"])


def test_its_artifact_is_a_pointer_and_says_what_it_points_to(stored):
    assert stored.examples["uri"] == f"{stored.root}/root/image-pipeline/ImageExampleGen/examples"
    (pointer,) = (json.loads(data) for data in stored.below(stored.examples["uri"]).values())
    said = stored.examples["metadata"]
    assert said["data_set_uri"] == pointer["uri"]
    assert pointer["uri"].startswith(f"{stored.root}/root/data/")
    manifest_sha256 = hashlib.sha256(stored.data_set["manifest.json"]).hexdigest()
    assert said["manifest_sha256"] == pointer["manifest_sha256"] == manifest_sha256
    assert said["records"] == pointer["records"] == 48


def test_the_launcher_copies_the_pointer_and_never_a_shard(stored):
    copied = {
        step: size for (step, name), size in stored.launcher.copied.items() if name == "examples"
    }
    (pointer,) = stored.below(stored.examples["uri"]).values()
    readers = {"StatisticsGen", "ImageTransform", "Trainer", "Evaluator"}
    assert copied == dict.fromkeys({"ImageExampleGen", *readers}, len(pointer))
    assert len(pointer) < 400 < sum(map(len, stored.data_set.values())) / 50


def test_shards_are_on_the_disk_of_the_trainers_pod_alone_and_once(stored, folder):
    found = sorted((folder / "pods").rglob("data_tfrecord-*"))
    assert {path.relative_to(folder / "pods").parts[0] for path in found} == {"Trainer"}
    shards = sorted(data for name, data in stored.data_set.items() if "Split-" in name)
    assert sorted(path.read_bytes() for path in found) == shards and len(shards) == 4


def test_a_step_that_runs_again_on_a_cached_data_set_makes_the_same(stored, folder):
    made = _run_again(stored, folder / "again")
    uri = made["statistics"]["uri"]
    before, after = stored.below(uri), read_tree(uri)
    assert before.keys() == {"Split-train/FeatureStats.pb", "Split-eval/FeatureStats.pb"}
    assert after == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda uri, content: files.delete(uri), "was deleted, or its manifest.json was; run in"),
        (lambda uri, content: files.write_file(uri, content + b" "), "was replaced: the SHA-256 "),
    ],
    ids=["deleted", "replaced"],
)
def test_a_cached_data_set_that_is_no_longer_there_is_named(stored, folder, change, message):
    uri = f"{stored.examples['metadata']['data_set_uri']}/manifest.json"
    content = stored.data_set["manifest.json"]
    try:
        change(uri, content)
        with pytest.raises(
            RuntimeError, match=f"The data set '{uri.rpartition('/')[0]}' {message}"
        ):
            _run_again(stored, folder / message.split()[1].strip(",:"))
    finally:
        files.write_file(uri, content)


def _run_again(stored: Stored, folder: pathlib.Path) -> dict:
    """Another run's StatisticsGen, for which the engine has cached the data set."""
    message = fill_in(stored.spec, "StatisticsGen", {}, stored.made, folder)
    return run_step(stored.spec, "StatisticsGen", message, folder, launcher=stored.launcher)


def test_the_model_is_pushed_to_that_store(stored, plan, tmp_path):
    models = {name: data for name, data in stored.tree.items() if name.startswith("models/")}
    for name, data in models.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (version,) = (tmp_path / "models").iterdir()
    (local_version,) = pathlib.Path(plan.folder.pushed_dir).iterdir()
    of_store, of_local = (tf.saved_model.load(str(path)) for path in (version, local_version))
    for one, other in zip(of_store.weights, of_local.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    pushed = stored.made["Pusher"]["pushed_model"]["metadata"]
    assert pushed["pushed_destination"] == f"{stored.root}/models/{version.name}"


def test_nothing_is_left_of_the_working_folder(stored):
    below = {name.split("/")[1] for name in stored.tree if name.startswith("root/")}
    assert below == {"image-pipeline", "data"}


def test_what_steps_say_names_the_store_and_never_a_pods_folder(stored):
    said = json.dumps(stored.made)
    assert "/pod/" not in said and said.count(f'"uri": "{stored.root}/root/') >= 10
