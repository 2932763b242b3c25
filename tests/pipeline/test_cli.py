"""The command line as a person meets it: in a process of its own."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from image_pipeline.cli import call as call_here
from tests.drawings import write_folder

pytestmark = pytest.mark.e2e

COMMAND = pathlib.Path(sys.executable).parent / "image-pipeline"

MULTI_THREADING = ("--", "--direct_running_mode=multi_threading")


def call(*arguments, python=()):
    command = [*python, str(COMMAND), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_help_imports_nothing_heavy():
    code = (
        "import sys; import image_pipeline.cli; "
        "heavy = {'tensorflow', 'apache_beam', 'tfx', 'numpy', 'cv2', 'pydantic', 'rich'}; "
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_names_the_commands_and_the_exit_codes():
    done = call("--help")
    assert done.returncode == 0
    for word in ("run", "demo", "ingest", "Exit codes"):
        assert word in done.stdout


def test_version():
    assert "0.1.0" in call("--version").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run"], "Error: Missing option '--images'.\nTry 'image-pipeline run --help'.\n"),
        (
            ["ingest", "--no-flag"],
            "Error: No such option '--no-flag'.\nTry 'image-pipeline ingest --help'.\n",
        ),
        (
            ["init", "images", "--minutes", "nan"],
            "Error: Invalid value for '--minutes': nan is not a finite number.\n"
            "Try 'image-pipeline init --help'.\n",
        ),
    ],
)
def test_wrong_usage_ends_in_two_lines_and_an_exit_code_of_its_own(arguments, told):
    done = call(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == told


def test_no_command_at_all_shows_the_help():
    done = call()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: image-pipeline")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("cli") / "images", per_class=5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--images", "{tmp}/empty", "--output", "{tmp}/o"],
            "holds no files; give a folder that holds images",
        ),
        (["--images", "{tmp}/one", "--output", "{tmp}/o"], "only the class 'cat', but training"),
        (["--images", "{images}", "--output", "{tmp}/file/o"], "Cannot write to the output folder"),
        (["--images", "{images}", "--output", "{images}/o"], "the next run would read it"),
        (["--images", "{images}", "--output", "{tmp}/o", "--set", "seed=1"], "seed: unknown key"),
        (
            ["--images", "{images}", "--output", "{tmp}/o", "--config", "{tmp}/none.yaml"],
            "Cannot read the configuration",
        ),
        (
            ["--images", "{images}", "--output", "{tmp}/o", *MULTI_THREADING],
            "silently loses records",
        ),
    ],
)
def test_bad_input_is_one_clear_message(tmp_path, images, capfd, arguments, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    write_folder(tmp_path / "one", ["cat"], per_class=2)
    filled = [argument.format(tmp=tmp_path, images=images) for argument in arguments]
    capfd.readouterr()
    assert call_here(["run", *filled]) == 1
    out, err = capfd.readouterr()
    assert err.startswith("Error: ") and message in err
    assert "Traceback" not in err + out


@pytest.mark.parametrize("name", ["file", "file/o"])
def test_a_demo_that_cannot_be_written_says_so(tmp_path, capfd, name):
    (tmp_path / "file").write_text("x")
    assert call_here(["demo", "--output", str(tmp_path / name)]) == 1
    assert capfd.readouterr().err.startswith("Error: Cannot write to the output folder")


MODEL = """
import keras

def build(input_shape, num_classes, options):
    model = keras.Sequential([keras.Input(input_shape), keras.layers.Flatten()])
    model.add(keras.layers.Dense(1000, activation="softmax"))
    model.compile(loss="sparse_categorical_crossentropy")
    return model
"""


@pytest.mark.wide
def test_a_model_in_the_working_folder_is_found_and_its_mistake_before_any_work(tmp_path, images):
    (tmp_path / "my_model.py").write_text(MODEL)
    command = ["run", "--images", images, "--output", tmp_path / "out", "--set"]
    done = subprocess.run(
        [str(COMMAND), *map(str, command), "training.model=my_model.build"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=600,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(
        "Error: training.model=my_model.build returned a model that gives"
    )
    assert "1000 values per image, but there are 2 classes" in done.stderr
    assert not (tmp_path / "out" / "metadata.db").exists()


def test_ingest_alone_writes_a_data_set_and_a_summary(tmp_path, images):
    done = call("ingest", "--images", images, "--output", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    counts = [summary[key] for key in ("found", "written", "duplicates", "quarantined")]
    assert counts == [10, 10, 0, 0]
    assert {"splits", "shards", "bytes", "seconds", "peak_rss_mb"} <= summary.keys()
    assert summary["written_before"] is None
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["written"] == 10


def test_ingest_of_no_image_shows_why(tmp_path):
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "notes.txt").write_text("not a picture")
    folders = ("--images", tmp_path / "images", "--output", tmp_path / "out")
    done = call("ingest", *folders, "--set", "ingest.label_pattern=null")
    assert done.returncode == 1
    assert "None of the 1 files found is a usable image" in done.stderr
    assert "1 text, for example 'cat/notes.txt'" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_eval_split_that_would_be_empty_is_explained(tmp_path, images):
    shares = "ingest.splits={train: 0.999999, eval: 0.000001}"
    done = call("ingest", "--images", images, "--output", tmp_path / "out", "--set", shares)
    assert done.returncode == 1
    assert "'eval' would be empty: 10 usable images" in done.stderr


def test_a_bug_is_one_line_and_a_log(tmp_path, images):
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    # Beam cannot be imported: nothing that a person's input could cause.
    (tmp_path / "apache_beam.py").write_text("raise RuntimeError('planted')")
    done = subprocess.run(
        [str(COMMAND), "ingest", "--images", str(images), "--output", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 4
    assert "Unexpected error: RuntimeError: planted" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in (tmp_path / "out" / ".ingest.log").read_text()


def test_a_command_ends_without_a_search_for_garbage_among_all_that_it_imported():
    code = (
        "import atexit, gc, sys; from image_pipeline.cli import main; "
        "atexit.register(lambda: print(gc.get_freeze_count() > 10_000)); "
        "sys.argv[1:] = ['--version']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "True"


COMPLETE = """\
export PATH={bin}:$PATH
eval "$(_IMAGE_PIPELINE_COMPLETE=bash_source image-pipeline)"
compopt() {{ COMPREPLY+=("$2"); }}
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_image_pipeline_completion image-pipeline
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
NO_SPACE = "nospace"


def _complete(*words):
    """What bash is told, by the script that people load, for a line that it has split."""
    quoted = " ".join(f"'{word}'" for word in ("image-pipeline", *words))
    script = COMPLETE.format(bin=os.path.dirname(sys.executable), words=quoted)
    done = subprocess.run([shutil.which("bash"), "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def test_a_key_completes_without_a_space_after_it():
    assert _complete("run", "--set", "training.epo") == ["training.epochs=", NO_SPACE]


def test_values_complete_after_the_equals_sign_as_bash_splits_it():
    assert _complete("ingest", "--set", "feeding.layout", "=") == ["NHWC", "NCHW"]
    assert _complete(
        "run", "--set", "view.dtype", "=", "uint8", "--set", "view.dtype", "=", "f"
    ) == ["float32"]


def test_a_key_completes_for_the_command_that_describes_it():
    assert _complete("options", "feeding.many_views.m") == ["feeding.many_views.mirror"]


def test_options_in_lists_cannot_be_set_alone():
    assert _complete("run", "--set", "feeding.augment") == ["feeding.augment=", NO_SPACE]


_RUN = """
import errno, os, sys, tempfile
def refuse(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp")
setattr(tempfile, sys.argv.pop(1), refuse)
from image_pipeline.cli import main
main()
"""


@pytest.mark.parametrize("where", ["gettempdir", "mkdtemp"])
def test_no_room_for_a_temporary_file_is_said_in_a_sentence(where):
    ended = subprocess.run(
        [sys.executable, "-c", _RUN, where, "--version"], capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "Error: Cannot write a temporary file (No space left on device); free some space, or set "
        "TMPDIR to a folder that has some.\n"
    )
