"""What is tried of the image; `make image-check` tries it."""

import os
import types

import pytest

from tests.kubeflow_compile.conftest import load_script

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def check_image() -> types.ModuleType:
    """kubeflow/check_image.py."""
    return load_script("check_image")


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


def test_what_is_written_beside_the_code_is_named(check_image, tmp_path):
    image = check_image.Image(tmp_path, {}, tmp_path)
    for name in ("opt/venv/a.py", "opt/venv/b.pyc", "tmp/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for path in tmp_path.glob("opt/**/*"):
        os.utime(path, (1000, 1000))
    check_image.check_untouched(image, 1500.0)
    os.utime(tmp_path / "opt" / "venv" / "b.pyc", (2000, 2000))
    with pytest.raises(SystemExit, match=r"the image's user may not: opt/venv/b\.pyc\.$"):
        check_image.check_untouched(image, 1500.0)


def _write_spec(**commands):
    lines = [f"    {name}: {{container: {{command: {c}}}}}\n" for name, c in commands.items()]
    return f"deploymentSpec:\n  executors:\n{''.join(lines)}---\nplatforms: {{}}\n"


def test_each_command_of_the_steps_is_tried_once(check_image):
    spec = _write_spec(a="[python, -m, x]", b="[other]", c="[python, -m, x]")
    assert check_image.list_commands(spec) == [["python", "-m", "x"], ["other"]]


def test_a_step_without_a_command_would_start_boot(check_image):
    with pytest.raises(SystemExit, match=r"^b names no command: its container would start Beam's"):
        check_image.list_commands(_write_spec(a="[x]", b="[]"))


@pytest.mark.e2e
def test_what_a_command_complains_of_is_told(check_image, tmp_path):
    image = check_image.Image(tmp_path, {"PATH": "/usr/bin:/bin"}, tmp_path)
    assert check_image.ask(["echo", "a"], image) == "a\n"
    with pytest.raises(SystemExit, match=r"^sh -c 'echo no >&2; exit 3' failed:\nno\n"):
        check_image.ask(["sh", "-c", "echo no >&2; exit 3"], image)
