"""A Dataflow job's flags and places, as far as they can be checked without a cloud."""

import pathlib
import socket
import subprocess
import sys

import google.auth
import pytest
from google.auth.exceptions import DefaultCredentialsError

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.beam.flags import make_pipeline
from image_pipeline.components.errors import UserError
from image_pipeline.engine_options import DataflowOptions
from image_pipeline.run import dataflow
from image_pipeline.run.dataflow import (
    add_dataflow_options,
    check_credentials,
    check_dataflow_flags,
    check_places,
    check_remote,
)
from image_pipeline.run.engine import check_engine, choose_engine

KUBEFLOW = pathlib.Path(__file__).parents[3] / "kubeflow"
IMAGE = "--sdk_container_image=registry/worker:tag"
FLAGS = ["--project=our-project", "--region=r", "--temp_location=gs://bucket/tmp", IMAGE]
# With an endpoint here, nothing is in the cloud, and folders may be on this machine.
OFFLINE = ["--no_auth", "--dataflow_endpoint=http://localhost:9"]


def _given(*flags: str, without: str = "") -> list[str]:
    kept = [flag for flag in FLAGS if not (without and flag.startswith(f"--{without}="))]
    return ["--runner=DataflowRunner", *kept, *flags]


@pytest.mark.unit
@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--num_workers=2", "--max_num_workers=50", "--autoscaling_algorithm=THROUGHPUT_BASED"),
        ("--staging_location=gs://bucket/staging", "--worker_machine_type=n2-highcpu-16"),
        ("--start_timeout_s=60",),
    ],
)
def test_what_a_job_needs_is_enough(flags):
    check_dataflow_flags(_given(*flags))


@pytest.mark.unit
@pytest.mark.parametrize("flag", ["--setup_file=setup.py", "--extra_package=project.tar.gz"])
def test_the_code_may_come_in_other_ways(flag):
    check_dataflow_flags(_given(flag, without="sdk_container_image"))


@pytest.mark.e2e
@pytest.mark.unit
@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("project", "Missing required option: project; they are set under dataflow: in"),
        ("region", "Missing required option: region; they are set under dataflow: in"),
        ("temp_location", r"needs --temp_location=gs://BUCKET/FOLDER \(or --staging_location\)"),
        ("sdk_container_image", "needs --sdk_container_image=REGISTRY/WORKER:TAG"),
    ],
)
def test_a_missing_flag_is_named(missing, message, monkeypatch):
    monkeypatch.delenv("CLOUDSDK_COMPUTE_REGION", raising=False)
    monkeypatch.setenv("PATH", "")  # Beam takes the region that gcloud is set to.
    with pytest.raises(UserError, match=message):
        check_dataflow_flags(_given(without=missing))
    with pytest.raises(UserError, match=f"--{missing}= has no value; give one, or leave it out"):
        check_dataflow_flags(_given(f"--{missing}=", without=missing))


@pytest.mark.unit
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--staging_location=/tmp/x"], r"Invalid GCS path \(/tmp/x\), .*: staging_location; they"),
        (["--num_workers=0"], r"Invalid value \(0\) for option: num_workers"),
        (["--num_workers=9", "--max_num_workers=8"], r"num_workers \(9\) cannot exceed max_num_"),
        (["--worker_zone=a", "--worker_region=b"], "worker_region and worker_zone are mutually"),
        (["--job_name=A_b"], r"Invalid job_name \(A_b\)"),
        (["--max_num_workers=many"], "argument --max_num_workers: invalid int value: 'many'"),
        (["--autoscaling_algorithm=ON"], "argument --autoscaling_algorithm: invalid choice: 'ON'"),
        (["--wroker_machine_type=x"], "unknown Beam flag .*; did you mean --worker_machine_type"),
    ],
)
def test_a_wrong_flag_is_named(flags, message, capfd):
    with pytest.raises(UserError, match=message):
        check_dataflow_flags(_given(*flags))
    assert "usage" not in capfd.readouterr().err


@pytest.mark.unit
@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--num_workers=many", "argument --num_workers: invalid int value: 'many'"),
        ("--environment_type=PROCESS", "Option process_command is required for environment type"),
    ],
)
def test_what_beam_checks_itself_is_said_in_its_words(flag, message):
    with pytest.raises(UserError, match=rf"^Beam rejects its flags: (\S.*)?{message}"):
        make_pipeline([*LOCAL_BEAM_ARGS, flag])


@pytest.mark.unit
def test_an_unknown_flag_of_the_local_runner_is_refused():
    with pytest.raises(UserError, match="did you mean --direct_num_workers"):
        choose_engine(["--direct_num_worker=2"])


@pytest.mark.unit
def test_options_of_the_configuration_become_flags_unless_a_flag_says_otherwise():
    options = DataflowOptions.model_validate(
        {
            **{"project": "other", "image": "other/image", "zone": "r-a", "disk_type": "pd-ssd"},
            **{"network": "net", "subnetwork": "sub", "public_ips": False, "num_workers": 3},
            **{"service_account": "w@p", "labels": {"team": "vision", "cost": "1"}},
            **{"staging_location": "gs://bucket/staging"},
        }
    )
    flags = add_dataflow_options(_given("--machine_type=e2-highmem-4"), options)
    assert flags == [
        *_given("--machine_type=e2-highmem-4"),
        *("--worker_zone=r-a", "--staging_location=gs://bucket/staging", "--disk_size_gb=50"),
        *("--disk_type=pd-ssd", "--num_workers=3", "--max_num_workers=20"),
        *("--autoscaling_algorithm=THROUGHPUT_BASED", "--network=net", "--subnetwork=sub"),
        "--service_account_email=w@p",
        *("--labels=team=vision", "--labels=cost=1", "--no_use_public_ips"),
    ]
    check_dataflow_flags(flags)


@pytest.mark.unit
def test_a_machines_type_given_by_beams_other_name_stays():
    flags = add_dataflow_options(_given("--worker_machine_type=x"), DataflowOptions())
    assert not any(flag.startswith("--machine_type") for flag in flags)


@pytest.mark.unit
def test_other_runners_get_none_of_them():
    options = DataflowOptions(project="our-project")
    assert choose_engine([], options) == list(LOCAL_BEAM_ARGS)


@pytest.mark.unit
def test_more_machines_than_the_most_is_an_error():
    with pytest.raises(ValueError, match="num_workers must not exceed max_num_workers, got 9 and"):
        DataflowOptions(num_workers=9, max_num_workers=8)


@pytest.mark.unit
def test_nobody_logged_in_is_said_before_the_job_is_sent(monkeypatch):
    def refuse():
        raise DefaultCredentialsError("none")

    monkeypatch.setattr(google.auth, "default", refuse)
    with pytest.raises(UserError, match="finds no Google credentials \\(none\\); run `gcloud"):
        check_engine(_given())
    check_credentials({"no_auth": True})
    monkeypatch.setattr(google.auth, "default", lambda: (object(), "p"))
    check_credentials({})


@pytest.mark.unit
def test_credentials_that_are_a_folder_are_said(tmp_path, monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path))
    with pytest.raises(UserError, match=r"finds no Google credentials \(.*Is a directory"):
        check_credentials({})


@pytest.mark.unit
@pytest.mark.parametrize("flag", ["temp_location", "staging_location"])
def test_a_missing_folder_is_said_before_beam_tries_to_write_there(flag, tmp_path):
    flags = ["--runner=DataflowRunner", *OFFLINE, *FLAGS[:2], IMAGE]
    with pytest.raises(UserError, match=f"--{flag}={tmp_path}/none: there is no folder .*make it"):
        check_engine([*flags, f"--{flag}={tmp_path}/none"])
    check_engine([*flags, f"--{flag}={tmp_path}"])


@pytest.mark.unit
def test_a_templates_folder_is_looked_for(tmp_path):
    with pytest.raises(UserError, match=f"--template_location={tmp_path}/a/t: there is no folder"):
        check_places({"template_location": f"{tmp_path}/a/t"})
    check_places({"template_location": f"{tmp_path}/t"})
    with pytest.raises(UserError, match=f"={tmp_path} must be a file, not a folder; add a name"):
        check_places({"template_location": str(tmp_path)})


@pytest.mark.unit
@pytest.mark.parametrize("name", ["setup_file", "requirements_file"])
def test_a_file_that_beam_would_send_is_looked_for(name, tmp_path):
    with pytest.raises(UserError, match=f"--{name}={tmp_path}/x: there is no such file; check"):
        check_places({name: f"{tmp_path}/x"})
    (tmp_path / "x").write_text("")
    check_places({name: f"{tmp_path}/x"})


@pytest.mark.unit
def test_without_a_network_it_is_said_that_google_does_not_answer(monkeypatch):
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # And nobody listens.
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        with pytest.raises(UserError, match=f"Google's store does not answer at {url} within 5 s"):
            check_engine(_given("--no_auth"))


@pytest.mark.unit
def test_each_bucket_is_asked_for_once(monkeypatch):
    asked = []
    monkeypatch.setattr(dataflow, "_check_google_answers", lambda: asked.append("google"))
    monkeypatch.setattr(dataflow.files, "check_answers", asked.append)
    named = {"temp_location": "gs://b/tmp", "staging_location": "gs://b/staging"}
    check_places({**named, "template_location": "gs://c/t.json"})
    assert asked == ["google", "gs://b", "gs://c"]


@pytest.mark.unit
def test_flags_are_checked_before_anyone_is_asked_who_they_are(monkeypatch):
    monkeypatch.setattr(google.auth, "default", lambda: pytest.fail("asked"))
    with pytest.raises(UserError, match="needs --temp_location"):
        check_engine(["--runner=DataflowRunner", "--project=our-project"])


@pytest.mark.unit
def test_only_what_all_machines_see_is_given_to_them():
    check_remote(images="source:photos:open_source", output="gs://bucket/out")
    with pytest.raises(UserError, match="--images=photos: Dataflow's machines cannot read"):
        check_remote(images="photos")


@pytest.mark.e2e
def test_compiling_steps_for_dataflow_checks_their_flags(tmp_path):
    where = ("--images=i", "--root=r", "--push=p", "--image=n", f"--output={tmp_path}/p.yaml")
    flags = ("--runner=dataflow", "--temp_location=gs://bucket/tmp")
    command = [sys.executable, str(KUBEFLOW / "compile.py"), *where, "--", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: DataflowRunner needs --sdk_container_image=")
