"""`image-pipeline doctor`, as a person meets it, and bottlenecks that it must name."""

import json
import shutil
import time

import pytest

from image_pipeline.components.dataset.stored import StoredRecords
from image_pipeline.components.views import fast_decode
from tests.pipeline.test_cli import call as call_process
from tests.pipeline.test_commands import call

pytestmark = [pytest.mark.beam, pytest.mark.wide]

QUICK = ("--seconds", "0.1", "--set", "feeding.batch_size=8")


def test_of_a_run_everything_is_measured(run_dir, tmp_path):
    profile = tmp_path / "profile"
    done = call_process(
        "doctor", run_dir, *QUICK, "--profile", 2, "--profile-dir", profile, "--json"
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    stages = found["stages"]
    assert list(stages["every_image"]) == ["read", "decode", "views", "augment", "transform"]
    assert list(stages["held"]) == ["views", "augment", "transform"]
    rates = ["images", "images_per_s", "cpu_s_an_image"]
    assert list(stages["read_cold"]) == list(stages["step"]) == rates
    for figures in [*stages["every_image"].values(), *stages["held"].values()]:
        assert list(figures) == [*rates, "own_ms_an_image"]
        assert figures["images"] >= 8 and min(figures.values()) >= 0
    assert found["batch_size"] == 8
    assert found["storage"] == {
        "encoding": "png",
        "stored_bytes": found["storage"]["stored_bytes"],
        "pixel_bytes": 240,
        "view_bytes": 192,
    }
    names = [stage["name"] for stage in found["memory"]]
    assert (names[0], names[-1]) == ("index", "decoded images")
    assert {"encoded batches", "views", "ready batches"} < set(names)
    assert found["steps_a_call"] == 1
    assert stages["step"]["images_per_s"] < 8 / 0.02 or list(found["calls"])[:2] == ["1", "2"]
    assert found["profile"]["steps"] == 2
    (trace,) = profile.glob("plugins/profile/*/*.xplane.pb")
    assert found["profile"]["size_bytes"] == trace.stat().st_size
    assert len(found["profile"]["slowest"]) == 12
    assert any(op["kind"].startswith("Conv2D") for op in found["profile"]["slowest"])


def test_a_person_reads_one_line_of_verdict(run_dir):
    done = call_process("doctor", run_dir, *QUICK, "--step-ms", "300")
    assert (done.returncode, done.stderr) == (0, "")
    for part in ("+ transform, in memory", "model's step", "held in memory", "made of"):
        assert part in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("The model's step lim"))
    assert "of each step for input" in line and "(estimate)" in line


def test_a_data_set_alone_has_no_transform_graph(data_dir):
    size = ("--set", "view.height_px=8", "--set", "view.width_px=8")
    result, _ = call("doctor", data_dir, *QUICK, *size, "--json")
    stages = json.loads(result.stdout)["stages"]
    assert list(stages["every_image"]) == ["read", "decode", "views", "augment"]
    assert stages["step"]["images_per_s"] > 0  # of the default model, on raw pixels


def test_a_model_that_a_function_of_its_own_compiles_is_measured(data_dir):
    steps = "tests.pipeline.doctor.steps"
    options = (f"training.model={steps}.build", f"training.compile={steps}.compile_model")
    options += ("view.height_px=8", "view.width_px=8")
    sets = [word for option in options for word in ("--set", option)]
    result, _ = call("doctor", data_dir, *QUICK, *sets, "--json")
    assert json.loads(result.stdout)["stages"]["step"]["images_per_s"] > 0


def test_what_cannot_be_kept_is_said_beside_the_json(run_dir, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    (copy / "doctor.json").unlink(missing_ok=True)
    (copy / "doctor.json" / "own").mkdir(parents=True)
    result, _ = call("doctor", copy, *QUICK, "--step-ms", "1", "--json")
    assert (result.exit_code, json.loads(result.stdout)["version"]) == (0, 1)
    assert result.stderr.startswith("Not kept for the report: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{tmp}/none"], "does not exist; give the --output of ingest or run"),
        (["{run}", "--profile", "51"], "51 is not in the range 1<=x<=50"),
        (["{run}", "--seconds", "0"], "0.0 is not in the range"),
        (["{run}", "--profile", "2", "--profile-dir", "{tmp}/file/p"], "--profile-dir must be a"),
        (["{run}", "--set", "training.model=no.such"], "training.model cannot be loaded"),
        (["{run}", "--set", "feeding.data_service=grpc://far:1"], "is no longer an option"),
        (["{run}", "--set", "feeding.memory_fraction=1e-9"], "raise memory_fraction"),
    ],
)
def test_errors_say_what_to_do(arguments, message, run_dir, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    result, output = call("doctor", *(each.format(run=run_dir, tmp=tmp_path) for each in arguments))
    assert result.exit_code
    assert message in output
    assert "Traceback" not in output


SMALL = ("--set", "view.height_px=8", "--set", "view.width_px=8", "--set", "feeding.batch_size=8")
# Longer than whatever else the machine may do meanwhile.
DELAY_S = 0.1
DECODED_EACH_TIME = ("--set", "feeding.hold_decoded=false")


def examine(folder, *arguments):
    result, output = call("doctor", folder, *SMALL, "--seconds", "0.3", "--json", *arguments)
    assert result.exit_code == 0, output
    return json.loads(result.stdout)


def slow_down(function, seconds):
    """The same function, which takes so much longer."""

    def slow(*arguments, **named):
        time.sleep(seconds)
        return function(*arguments, **named)

    return slow


def test_a_slow_disk(data_dir, monkeypatch):
    monkeypatch.setattr(StoredRecords, "read", slow_down(StoredRecords.read, DELAY_S))
    found = examine(data_dir, "--step-ms", "1", *DECODED_EACH_TIME)
    assert found["verdict"]["limit"] == "read"
    assert found["line"].startswith("Reading from the disk limits: the model waits ")
    assert "hold_decoded=true" in found["changes"][0]["text"]
    assert found["changes"][0]["gain"] > 1


def test_slow_decoding(data_dir, monkeypatch):
    monkeypatch.setattr(fast_decode, "_decode_png", slow_down(fast_decode._decode_png, DELAY_S))
    found = examine(data_dir, "--step-ms", "1", *DECODED_EACH_TIME)
    assert found["verdict"]["limit"] == "decode"
    # Later epochs do not decode: once they are held, something else limits.
    held = examine(data_dir, "--step-ms", "1")
    assert held["verdict"]["limit"] != "decode"
    assert set(held["stages"]["held"]) == {"views", "augment"}


def test_slow_random_steps(data_dir):
    step = "tests.pipeline.doctor.steps.burn"
    augment = f"feeding.augment=[random_resized_crop, {step}]"
    found = examine(data_dir, "--step-ms", "1", "--set", augment)
    assert found["verdict"]["limit"] == "augment"
    assert found["line"].startswith("The random steps (augment) limit: the model waits ")
    assert any(step in each["text"] for each in found["changes"])


def test_a_slow_step(data_dir):
    found = examine(data_dir, "--step-ms", "1000")
    assert found["verdict"]["limit"] == "step"
    assert found["line"].startswith("The model's step limits: it waits ")
    assert found["changes"] == []
    assert found["stages"]["step"]["images_per_s"] == 8
