"""The script that does the Dockerfile's steps; `make image-check` does them."""

import importlib.util
import json
import types

import pytest

from tests.kubeflow_compile.conftest import SCRIPT

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def check_image() -> types.ModuleType:
    """kubeflow/check_image.py."""
    path = SCRIPT.parent / "check_image.py"
    spec = importlib.util.spec_from_file_location("kubeflow_check_image_script", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_dockerfile_is_steps_that_the_script_knows(check_image):
    steps = list(check_image.read_steps(check_image.DOCKERFILE.read_text()))
    names = [name for name, _ in steps]
    assert names[:2] == ["FROM", "WORKDIR"] and names[-1] == "ENTRYPOINT"
    assert set(names[2:-1]) == {"COPY", "RUN"}
    command = ["python", "-m", "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"]
    assert json.loads(steps[-1][1]) == command


def test_copy_and_run_go_to_the_environment(check_image, tmp_path):
    environment = {"VIRTUAL_ENV": "/venv", "PATH": "/usr/bin:/bin"}
    check_image.do_step("COPY", "pyproject.toml README.md ./", tmp_path, environment)
    check_image.do_step("COPY", "pipeline pipeline", tmp_path, environment)
    check_image.do_step("RUN", "echo --system --no-cache-dir end > said", tmp_path, environment)
    assert (tmp_path / "said").read_text() == "--python /venv/bin/python end\n"
    assert (tmp_path / "README.md").is_file() and (tmp_path / "pipeline" / "cli.py").is_file()
    assert not list(tmp_path.rglob("__pycache__"))


def test_an_unknown_step_is_an_error(check_image, tmp_path):
    with pytest.raises(ValueError, match="COPY and RUN steps only, got ADD"):
        check_image.do_step("ADD", "a b", tmp_path, {})


def test_a_file_that_was_not_installed_is_named(check_image, tmp_path):
    installed = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    for source, package in check_image.FOLDERS.items():
        for folder in (tmp_path / "app" / source, installed / package):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "__init__.py").touch()
    check_image.check_files(tmp_path / "app", tmp_path / "venv")
    (tmp_path / "app" / "pipeline" / "page.html").touch()
    with pytest.raises(SystemExit, match=r"lacks image_pipeline/page\.html; .*package-data"):
        check_image.check_files(tmp_path / "app", tmp_path / "venv")
