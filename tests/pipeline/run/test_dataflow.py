"""Dataflow, as far as it goes without a cloud: flags, and a job description run here."""

import json
import pathlib
import socket
import subprocess
import sys

import google.auth
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.transforms.environments import EmbeddedPythonEnvironment
from google.auth.exceptions import DefaultCredentialsError

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.errors import UserError
from image_pipeline.run import dataflow
from image_pipeline.run.dataflow import check_credentials, check_dataflow_flags, check_places
from image_pipeline.run.engine import check_engine, split_flags
from image_pipeline.run.ingest import make_beam_pipeline
from tests.drawings import write_folder
from tests.ingest_runs import OPTIONS, ingest

KUBEFLOW = pathlib.Path(__file__).parents[3] / "kubeflow"
COMPILE = ("-c", "from image_pipeline.cli import main; main()", "compile", "--runner=dataflow")
IMAGE = "--sdk_container_image=registry/worker:tag"
FLAGS = ["--project=p", "--region=r", "--temp_location=gs://b/tmp", IMAGE]


def _given(*flags: str, without: str = "") -> dict[str, str]:
    kept = [flag for flag in FLAGS if not (without and flag.startswith(f"--{without}="))]
    return split_flags(["--runner=DataflowRunner", *kept, *flags])


@pytest.mark.unit
@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--num_workers=2", "--max_num_workers=50", "--autoscaling_algorithm=THROUGHPUT_BASED"),
        ("--staging_location=gs://b/staging", "--worker_machine_type=n2-highcpu-16"),
    ],
)
def test_what_a_job_needs_is_enough(flags):
    check_dataflow_flags(_given(*flags))


@pytest.mark.unit
@pytest.mark.parametrize("flag", ["--setup_file=setup.py", "--extra_package=project.tar.gz"])
def test_the_code_may_come_in_other_ways(flag):
    check_dataflow_flags(_given(flag, without="sdk_container_image"))


@pytest.mark.unit
@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("project", "DataflowRunner needs --project=ID"),
        ("region", "DataflowRunner needs --region=NAME"),
        ("temp_location", r"needs --temp_location=gs://BUCKET/FOLDER \(or --staging_location\)"),
        ("sdk_container_image", "needs --sdk_container_image=REGISTRY/WORKER:TAG"),
    ],
)
def test_a_missing_flag_is_named(missing, message):
    with pytest.raises(UserError, match=message):
        check_dataflow_flags(_given(without=missing))
    with pytest.raises(UserError, match=message):
        check_dataflow_flags(_given(f"--{missing}=", without=missing))


@pytest.mark.unit
@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--staging_location=/tmp/x", "--staging_location=/tmp/x: .* read gs:// only"),
        ("--num_workers=0", "--num_workers must be a positive whole number, got '0'"),
        ("--max_num_workers=many", "--max_num_workers must be .*, got 'many'"),
        ("--autoscaling_algorithm=ON", "one of NONE, THROUGHPUT_BASED, got 'ON'"),
    ],
)
def test_a_wrong_flag_is_named(flag, message):
    with pytest.raises(UserError, match=message):
        check_dataflow_flags(_given(flag))


@pytest.mark.unit
def test_more_machines_than_the_most_is_an_error():
    with pytest.raises(UserError, match="--num_workers=9 must not exceed --max_num_workers=8"):
        check_dataflow_flags(_given("--num_workers=9", "--max_num_workers=8"))


@pytest.mark.unit
@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--num_workers=many", "argument --num_workers: invalid int value: 'many'"),
        ("--autoscaling_algorithm=ON", "argument --autoscaling_algorithm: invalid choice: 'ON'"),
        ("--environment_type=PROCESS", "Option process_command is required for environment type"),
    ],
)
def test_what_beam_checks_itself_is_said_in_its_words(flag, message):
    with pytest.raises(UserError, match=rf"^Beam rejects its flags: (\S.*)?{message}"):
        make_beam_pipeline([*LOCAL_BEAM_ARGS, flag])


@pytest.mark.unit
def test_nobody_logged_in_is_said_before_the_job_is_sent(monkeypatch):
    def refuse():
        raise DefaultCredentialsError("none")

    monkeypatch.setattr(google.auth, "default", refuse)
    with pytest.raises(UserError, match="finds no Google credentials; run `gcloud auth"):
        check_engine(["--runner=DataflowRunner", *FLAGS])
    check_credentials(_given("--no_auth"))
    monkeypatch.setattr(google.auth, "default", lambda: (object(), "p"))
    check_credentials({})


@pytest.mark.unit
@pytest.mark.parametrize("flag", ["temp_location", "staging_location"])
def test_a_missing_folder_is_said_before_beam_tries_to_write_there(flag, tmp_path):
    template = f"--template_location={tmp_path}/template.json"
    flags = ["--runner=DataflowRunner", "--no_auth", *FLAGS[:2], IMAGE, template]
    with pytest.raises(UserError, match=f"--{flag}={tmp_path}/none: there is no folder .*make it"):
        check_engine([*flags, f"--{flag}={tmp_path}/none"])
    check_engine([*flags, f"--{flag}={tmp_path}"])


@pytest.mark.unit
def test_a_templates_folder_is_looked_for(tmp_path):
    with pytest.raises(UserError, match=f"--template_location={tmp_path}/a/t: there is no folder"):
        check_places({"template_location": f"{tmp_path}/a/t"})
    check_places({"template_location": f"{tmp_path}/t"})


@pytest.mark.unit
def test_without_a_network_it_is_said_that_google_does_not_answer(monkeypatch):
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # And nobody listens.
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        with pytest.raises(UserError, match=f"Google's store does not answer at {url} within 5 s"):
            check_engine(["--runner=DataflowRunner", *FLAGS, "--no_auth"])


@pytest.mark.unit
def test_each_bucket_is_asked_for_once(monkeypatch):
    asked = []
    monkeypatch.setattr(dataflow, "_check_google_answers", lambda: asked.append("google"))
    monkeypatch.setattr(dataflow.files, "check_answers", asked.append)
    check_places(_given("--staging_location=gs://b/staging", "--template_location=gs://c/t.json"))
    assert asked == ["google", "gs://b", "gs://c"]


@pytest.mark.unit
def test_flags_are_checked_before_anyone_is_asked_who_they_are(monkeypatch):
    monkeypatch.setattr(google.auth, "default", lambda: pytest.fail("asked"))
    with pytest.raises(UserError, match="--region=NAME"):
        check_engine(["--runner=DataflowRunner", "--project=p"])


@pytest.mark.e2e
def test_compiling_steps_for_dataflow_checks_their_flags(tmp_path):
    where = ("--images=i", "--root=r", "--push=p", "--image=n", f"--output={tmp_path}/p.yaml")
    done = _run(str(KUBEFLOW / "compile.py"), *where, "--", "--runner=dataflow", "--project=p")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: DataflowRunner needs --region=NAME")


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("images", "output", "wrong"),
    [("/images", "gs://b/out", "--images=/images"), ("gs://b/i", "out", "--output=out")],
)
def test_a_template_for_the_cloud_takes_no_local_folder(images, output, wrong):
    where = (f"--images={images}", f"--output={output}", "--template=gs://b/template.json")
    done = _run(*COMPILE, *where, "--", *FLAGS, "--no_auth")
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {wrong}: Dataflow's machines cannot read")


@pytest.mark.e2e
def test_a_template_is_for_one_folder():
    where = ("--images=gs://b/day-{SPAN}", "--output=gs://b/out", "--template=gs://b/t.json")
    done = _run(*COMPILE, *where, "--", *FLAGS, "--no_auth")
    assert done.returncode == 2 and "--images must be one folder" in done.stderr


@pytest.mark.e2e
def test_a_template_staged_offline_writes_the_bytes_of_the_local_run(tmp_path):
    images = write_folder(tmp_path / "images")
    template = _stage_template(images, tmp_path / "out", tmp_path / "staged")
    assert template["type"] == "JOB_TYPE_BATCH"
    (image,) = template["environment"]["workerPools"][0]["sdkHarnessContainerImages"]
    assert image["containerImage"] == "registry/worker:tag"
    assert not (tmp_path / "out").exists()  # Nothing has run.
    assert _replay(tmp_path / "staged" / "pipeline.pb") == "DONE"
    ingest(images, tmp_path / "local")
    assert _read_all(tmp_path / "out") == _read_all(tmp_path / "local")


def _run(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def _stage_template(images: pathlib.Path, output: pathlib.Path, staged: pathlib.Path) -> dict:
    """Describes the job offline: an endpoint on localhost keeps Beam from asking for buckets."""
    staged.mkdir()
    path = staged / "template.json"
    done = _run(
        *COMPILE,
        *(f"--images={images}", f"--output={output}", f"--template={path}"),
        *(f"--set=ingest={json.dumps(OPTIONS)}", "--", "--project=p", "--region=r", IMAGE),
        *(f"--temp_location={staged}", f"--staging_location={staged}"),
        *("--no_auth", "--dataflow_endpoint=http://localhost:9"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"Wrote {path}. It names folders of this machine.\n"
    return json.loads(path.read_text())


def _replay(path: pathlib.Path) -> str:
    """Runs a staged job here; only the workers' container becomes this very process."""
    job = beam_runner_api_pb2.Pipeline.FromString(path.read_bytes())
    here = EmbeddedPythonEnvironment.default().to_runner_api(None)
    for environment in job.components.environments.values():
        environment.CopyFrom(here)
    options = PipelineOptions(list(LOCAL_BEAM_ARGS))
    return fn_runner.FnApiRunner().run_via_runner_api(job, options).wait_until_finish()


def _read_all(folder: pathlib.Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
