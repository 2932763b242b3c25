"""Imports point left only: plain function ← Beam or tf.data ← TFX contract ← pipeline ← CLI."""

import ast
import pathlib

import pytest

pytestmark = pytest.mark.unit

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = sorted(
    path for folder in ("components", "pipeline") for path in (ROOT / folder).rglob("*.py")
)
OURS = "image_pipeline.components"
# Which modules may import Beam, TensorFlow and TFX, by the end of their path.
BEAM = {
    "components/beam_job.py",
    "components/counters.py",
    "components/google_store.py",
    "components/job_pipeline.py",
    "components/remote.py",
    "components/tfx_components.py",
    "ingest/transforms.py",
    "ingest/run.py",
    "ingest/component.py",
    "transform/analysis.py",
    "transform/run.py",
    "transform/component.py",
    "training/counting.py",
    "pipeline/ingest.py",
    "pipeline/template.py",
}
TFX = {
    "components/tfx_components.py",
    "ingest/component.py",
    "ingest/span_resolver.py",
    "transform/component.py",
    "pipeline/pipeline.py",
    "pipeline/resolvers.py",
    "pipeline/local.py",
}
TENSORFLOW_ROOMS = tuple(
    f"components/{room}" for room in ("augment", "feeding", "served", "training", "transform")
)
TENSORFLOW_MODULES = ("components/resample.py", "components/views.py")


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _name(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_module_imports_only_what_stands_to_its_left(path):
    name, imported = _name(path), set(_imports(path))
    tops = {module.split(".")[0] for module in imported}
    assert not tops & {"components", "pipeline", "tests", "benchmarks"}
    if name.startswith("components/"):
        ours = {module for module in imported if module.startswith("image_pipeline.")}
        assert all(module.startswith(OURS) for module in ours)
    if not any(name.endswith(allowed) for allowed in BEAM):
        assert "apache_beam" not in tops
    if not any(name.endswith(allowed) for allowed in TFX):
        assert "tfx" not in tops
    if not name.startswith(TENSORFLOW_ROOMS) and name not in TENSORFLOW_MODULES:
        assert "tensorflow" not in tops
    if name.startswith(("components/images", "components/ingest")):
        later = ("feeding", "training", "transform")
        assert not any(module.startswith(f"{OURS}.{room}") for room in later for module in imported)
    if name.startswith("components/augment"):
        assert not any(module.startswith(f"{OURS}.feeding") for module in imported)
    if name.startswith(("components/augment", "components/feeding")):
        later = ("training", "transform")
        assert not any(module.startswith(f"{OURS}.{room}") for room in later for module in imported)
    if name.endswith("options.py"):
        assert not tops & {"tensorflow", "apache_beam", "tfx", "keras"}


def test_the_list_of_exceptions_names_files_that_exist():
    names = [_name(path) for path in SOURCES]
    assert all(any(name.endswith(each) for name in names) for each in BEAM | TFX)
