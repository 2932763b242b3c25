"""Every fenced block of README.md and docs/ does what it says: commands run, options load."""

import dataclasses
import logging
import os
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from image_pipeline.config import PipelineConfig, load_config
from tests import warm
from tests.drawings import write_scenes

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

ROOT = pathlib.Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# What is in a command, or a block of Python, that cannot run here, with the reason. All else runs.
NOT_RUN = {
    "make demo": "installs an environment; tests/pipeline runs the demo's parts",
    "make test": "would run this test within itself",
    "docker run": "needs Docker",
    "image-pipeline browse": "serves until killed; see tests/pipeline/browse/test_command.py",
    "localhost:8501": "needs a server; tests/inference/test_serving_shapes.py asks a stand-in",
    "localhost:8500": "the same",
    "python my_pipeline.py": "tests/pipeline/test_own_tfx_pipeline.py runs it, and a notebook",
    "ls my_run": "the same",
    "predict my_run": "the same",
    "import torch": "PyTorch is not a dependency; make interop runs it",
    "import grain": "likewise",
    "import jax\n": "likewise",
    "import tensorflow_datasets": "likewise",
    "import mlcroissant": "likewise",
    "from official.vision": "likewise",
    '"KERAS_BACKEND"] = "jax"': "likewise; and the backend is chosen once in a process",
}


@dataclasses.dataclass(frozen=True)
class Block:
    """One fenced block: where it begins, its language, its lines."""

    place: str
    language: str
    text: str


def _read_blocks(path):
    fenced = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    text = path.read_text()
    for found in fenced.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(f"{path.relative_to(ROOT)}:{line}", found[1], found[2])


BLOCKS = [block for path in DOCUMENTS for block in _read_blocks(path)]


def _blocks(language):
    chosen = [block for block in BLOCKS if block.language == language]
    return pytest.mark.parametrize("block", chosen, ids=[block.place for block in chosen])


def _is_run(text):
    return not any(part in text for part in NOT_RUN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder as the documents mean it: an environment in .venv, and the images of a reader."""
    folder = tmp_path_factory.mktemp("docs")
    generator = np.random.default_rng(0)
    for channel, name in enumerate(("red", "green")):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(60):
            pixels = generator.integers(0, 100, (40, 48, 3), np.uint8)
            pixels[..., channel] += 120
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number:02d}.jpg")
            # The same, as they came in day by day.
            day = folder / "days" / ("2026-01-30" if number < 40 else "2026-01-31") / name
            day.mkdir(parents=True, exist_ok=True)
            (day / f"{number:02d}.jpg").hardlink_to(folder / "photos" / name / f"{number:02d}.jpg")
    (folder / "photos" / "red" / "broken.jpg").write_bytes(b"text")  # For the quarantine.
    write_scenes(folder / "scenes", 60, 48, 64)
    Image.fromarray(pixels).save(folder / "a.jpg")
    return folder


def _make_environment(folder, is_warm):
    """The environment's two commands, with TFX imported already if they are to be warm.

    Where a variable is set that TensorFlow reads when it is imported, each imports for itself.
    """
    (folder / ".venv/bin").mkdir(parents=True, exist_ok=True)
    python = warm.python() if is_warm else [sys.executable]
    real = pathlib.Path(sys.executable).with_name("image-pipeline")
    for name, script in {"python": [], "image-pipeline": [str(real)]}.items():
        path = folder / ".venv/bin" / name
        cold, usual = (shlex.join([*each, *script]) for each in ([sys.executable], python))
        path.write_text(
            f'#!/bin/sh\n[ -n "$TF_ENABLE_ONEDNN_OPTS" ] && exec {cold} "$@"\nexec {usual} "$@"\n'
        )
        path.chmod(0o755)


@_blocks("bash")
def test_commands_run(block, folder):
    # README's are what a person meets first: in processes that import for themselves.
    _make_environment(folder, is_warm=not block.place.startswith("README"))
    script = "".join(filter(_is_run, block.text.splitlines(keepends=True)))
    script = f"set -euo pipefail\n{script}"
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{block.place}\n{done.stdout}{done.stderr}"


@pytest.fixture
def logged_as_before():
    """A block may ask this project to tell more; the tests that follow do not."""
    logger = logging.getLogger("image_pipeline")
    level = logger.level
    yield
    logger.setLevel(level)


@_blocks("python")
def test_python_runs(block, folder, monkeypatch, logged_as_before):
    monkeypatch.chdir(folder)
    text = block.text
    if "<version>" in text:
        latest = max(os.listdir(folder / "out" / "pushed_model"), key=int)
        text = text.replace("<version>", latest)
    code = compile(text, block.place, "exec")
    if _is_run(text):
        exec(code, {"__name__": "docs"})


@_blocks("yaml")
def test_options_load(block, tmp_path):
    (tmp_path / "config.yaml").write_text(block.text)
    assert load_config(str(tmp_path / "config.yaml")) != PipelineConfig()


def test_what_stands_in_a_block_has_a_test():
    assert {block.language for block in BLOCKS} == {"bash", "python", "yaml", ""}
    for block in BLOCKS:
        if not block.language:  # What a command printed.
            assert not re.search(r"^(\$|\S*image-pipeline|make|python) ", block.text, re.MULTILINE)


def test_what_is_not_run_is_still_in_the_documents():
    runnable = "".join(block.text for block in BLOCKS if block.language in ("bash", "python"))
    assert [part for part in NOT_RUN if part not in runnable] == []
