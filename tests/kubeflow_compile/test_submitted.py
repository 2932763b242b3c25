"""What `image-pipeline submit` uploads and starts is, step by step, the local run of its options.

The API server is a stand-in (`api_server`); the steps' commands are real (`walk`).
"""

import dataclasses
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import yaml

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.config import load_config
from image_pipeline.run.run_plan import RunPlan
from tests import warm
from tests.drawings import encode_png
from tests.kubeflow_compile.api_server import ApiServer, run_api_server
from tests.kubeflow_compile.local import hash_files, run_local
from tests.kubeflow_compile.walk import walk_pipeline

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

COMMAND = pathlib.Path(sys.executable).parent / "image-pipeline"
COMPILED = """
ingest: {prepare: {encoding: png}, splits: {train: 0.7, eval: 0.3}, shards: 2}
view: {height_px: 16, width_px: 16}
feeding: {batch_size: 8, augment: [flip_horizontal]}
training: {epochs: 9, learning_rate: 0.01}
evaluation: {min_accuracy: 1.0}
kubeflow: {service_account: of-config}
"""
# What the run changes, and the same for a local run.
CHANGED = {
    "ingest": "{seed: 5, shards: 1}",
    "training": "epochs: 2",
    "evaluation": '{"min_accuracy": 0}',
}
OVERRIDES = (
    *("ingest.seed=5", "ingest.shards=1", "training.epochs=2", "evaluation.min_accuracy=0"),
)


def submit(folder, host, *more):
    """Runs the command, as a process of its own."""
    command = [*warm.python(), str(COMMAND), "submit", "--image=registry/name:tag"]
    command += [f"--root={folder}/root", f"--config={folder}/config.yaml", f"--host={host}"]
    command += [f"--push={folder}/pushed", f"--images={folder}/photos", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three folders of noise, one of them no span; a bright channel names the class."""
    folder = tmp_path_factory.mktemp("submitted")
    generator = np.random.default_rng(0)
    for part in ("photos", "day-7", "day-8"):
        for channel, name in enumerate(["red", "green"]):
            (folder / part / name).mkdir(parents=True)
            for number in range(24):
                pixels = generator.integers(0, 100, (16, 16, 3), np.uint8)
                pixels[..., channel] += 120
                (folder / part / name / f"{number:02d}.png").write_bytes(encode_png(pixels))
    (folder / "config.yaml").write_text(COMPILED)
    return folder


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
    """The same for LocalDagRunner."""
    return RunPlan(
        config=load_config(str(folder / "config.yaml"), OVERRIDES),
        images_dir=str(folder / "day-7"),
        output_dir=str(folder / "local"),
        fingerprint="today",
        beam_args=tuple(LOCAL_BEAM_ARGS),
    )


@pytest.fixture(scope="module")
def local(plan):
    """Each step's output URIs of that run."""
    return run_local(plan)


def test_it_says_where_the_run_is_and_waits_for_it(submitted):
    done, host = submitted.done, submitted.server.host
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Started image-pipeline: {host}/#/runs/details/runs-0\nDone.\n"
    (run,) = submitted.server.made["runs"]
    assert run["service_account"] == "of-config"


def test_the_data_set_is_that_of_the_span_and_the_options_of_the_run(walked, local):
    examples = walked["ImageExampleGen"]["examples"]
    assert examples["metadata"]["custom:span"] == 7
    found = hash_files(examples["uri"])
    assert found == hash_files(local["ImageExampleGen"]["examples"])
    assert len([name for name in found if name.startswith("Split-")]) == 2


def test_the_model_is_trained_as_the_run_says_and_pushed_where_it_says(walked, plan, local, folder):
    assert not (folder / "pushed").exists()
    (version,) = (folder / "other").iterdir()  # At the accuracy of 1 that was compiled: none.
    (local_version,) = pathlib.Path(plan.folder.pushed_dir).iterdir()
    of_steps, of_local = (tf.saved_model.load(str(path)) for path in (version, local_version))
    assert len(of_steps.weights) > 0
    for one, other in zip(of_steps.weights, of_local.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_nothing_is_left_of_the_working_folder(walked, folder):
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
