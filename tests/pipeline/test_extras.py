"""The core does without TFX and all that only it needs, and says so where it cannot."""

import subprocess
import sys

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.extras import need_tfx
from tests.drawings import write_folder

pytestmark = pytest.mark.e2e

# The packages of the extra `tfx` in pyproject.toml. Python takes a None for "not installed".
ABSENT = """\
import sys
for name in ("tfx", "kfp", "kfp_server_api", "kubernetes", "ml_metadata",
             "tensorflow_data_validation", "tensorflow_model_analysis", "tensorflow_serving"):
    sys.modules[name] = None
"""
USE = """\
from image_pipeline import analyze, ingest, input_fn
from image_pipeline.cli import call

def run(*arguments):
    code = call(arguments)
    assert code == 0, (arguments, code)

assert ingest("images", "data", stratify=True)["written"] == 40
assert len(analyze("data", "graph", view={"height_px": 8, "width_px": 8})["classes"]) == 2
images, labels = next(iter(input_fn("data", "train", "graph", batch_size=4)))
assert images.shape == (4, 8, 8, 3)
run("plan", "--images", "images")
run("init", "images", "--yes")
run("verify", "data")
run("inspect", "graph")
run("options", "epochs")
run("quarantine", "list", "data")
run("report", "data")
run("preview", "data", "--records", "2", "--set", "view.height_px=8", "--set", "view.width_px=8")
assert call(["run", "--images", "images", "--output", "out"]) == 1
assert call(["demo"]) == 1
assert call(["history", "out"]) == 1
import image_pipeline
try:
    image_pipeline.ImageExampleGen
except image_pipeline.UserError as error:
    print(error, file=sys.stderr)
"""


def test_the_core_ingests_analyses_feeds_and_shows_without_tfx(tmp_path):
    write_folder(tmp_path / "images", per_class=20)
    done = subprocess.run(
        [sys.executable, "-c", ABSENT + USE], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if "needs TFX" in line]
    assert [line.partition(" needs TFX")[0] for line in told] == [
        "Error: `image-pipeline run`",
        "Error: `image-pipeline demo`",
        "Error: `image-pipeline history`",
        "image_pipeline.ImageExampleGen",
    ]
    assert all("pip install 'image-pipeline[tfx]'" in line for line in told)
    assert not (tmp_path / "out").exists() and not (tmp_path / "demo-output").exists()


def test_nothing_is_refused_where_tfx_is_installed():
    need_tfx("This")


def test_what_needs_tfx_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tfx", None)
    with pytest.raises(UserError, match=r"^This needs TFX, .*pip install 'image-pipeline\[tfx\]'"):
        need_tfx("This")
