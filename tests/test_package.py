"""The wheel, installed beside other people's `pipeline/` and `components/`."""

import os
import pathlib
import subprocess
import sys
import tomllib

import pytest

from tests.drawings import write_folder
from tests.wheels import ROOT, build_and_unpack

pytestmark = pytest.mark.e2e

FOREIGN = ("pipeline/__init__.py", "pipeline/api.py", "components/__init__.py")


@pytest.fixture(scope="module")
def site_dir(tmp_path_factory):
    return build_and_unpack(tmp_path_factory.mktemp("site"))


@pytest.fixture
def foreign(tmp_path):
    """A folder with packages of the names that ours once had, and images."""
    for name in FOREIGN:
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise ImportError('this is a person's own package')\n")
    write_folder(tmp_path / "work" / "images", per_class=10)
    return tmp_path / "work"


def _python(site_dir, folder, *arguments):
    """Runs Python in a folder whose own packages come first, with the wheel's behind them."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(site_dir)])},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_packages_are_listed():
    """Setuptools finds them by itself only where folders have the packages' names."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    expected = []
    for folder, name in (("pipeline", "image_pipeline"), ("components", None)):
        for path in (ROOT / folder).rglob("__init__.py"):
            parts = path.parent.relative_to(ROOT / folder if name else ROOT).parts
            expected.append(".".join(("image_pipeline", *parts)))
    assert sorted(listed) == sorted(expected)


def test_a_wheel_has_all_files(site_dir):
    def files(folder):
        found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        return {path for path in found if path.suffix in (".py", ".jinja", ".css", ".js")}

    installed = site_dir / "image_pipeline"
    inner = pathlib.Path("components")
    expected = files(ROOT / "pipeline") | {inner / path for path in files(ROOT / "components")}
    assert files(installed) == expected
    assert {path.name for path in site_dir.iterdir() if path.is_dir()} == {
        "image_pipeline",
        "image_pipeline-0.1.0.dist-info",
    }


@pytest.mark.wide
def test_the_api_and_the_command_work_beside_foreign_folders(site_dir, foreign):
    code = (
        "import image_pipeline, sys; from image_pipeline import ingest, analyze, input_fn;"
        "print(image_pipeline.__file__, 'tfx' in sys.modules, 'tensorflow' in sys.modules);"
        "print(ingest('images', 'data')['written']);"
        "print(len(analyze('data', 'graph', view={'height_px': 8, 'width_px': 8})['classes']));"
        "batches = input_fn('data', 'train', 'graph', batch_size=4);"
        "print(next(iter(batches))[0].shape)"
    )
    where, *figures = _python(site_dir, foreign, "-c", code).splitlines()
    assert where == f"{site_dir / 'image_pipeline' / '__init__.py'} False False"
    assert figures == ["20", "2", "(4, 8, 8, 3)"]
    command = "from image_pipeline.cli import main; main()"
    said = _python(site_dir, foreign, "-c", command, "verify", "data")
    assert "intact" in said


@pytest.mark.wide
def test_the_components_for_a_persons_own_tfx_pipeline(site_dir, foreign):
    code = "from image_pipeline import ImageExampleGen, ImageTransform as t; print(t.__name__)"
    assert _python(site_dir, foreign, "-c", code) == "ImageTransform\n"


def test_other_names_are_no_attributes():
    import image_pipeline

    assert {"ingest", "analyze", "ImageExampleGen"} <= set(dir(image_pipeline))
    with pytest.raises(AttributeError, match="'image_pipeline' has no attribute 'nothing'"):
        _ = image_pipeline.nothing
