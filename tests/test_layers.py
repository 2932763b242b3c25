"""Imports point left only: plain function ← Beam or tf.data ← TFX contract ← pipeline ← CLI."""

import ast
import functools
import graphlib
import pathlib

import pytest

pytestmark = pytest.mark.unit

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = sorted(
    path for folder in ("components", "pipeline") for path in (ROOT / folder).rglob("*.py")
)
OURS = "image_pipeline.components."
# Each room of `components/` imports from its root, and from rooms that stand before it here.
ROOMS = (
    *("stores", "dataset", "images", "views", "beam", "augment", "labels", "sources", "archives"),
    *("arrays", "record_files", "tables", "generators", "order", "served", "meaning"),
    *("ingest", "feeding", "transform", "models", "tasks", "training", "evaluation"),
    "inference",
)
# Which modules may import a library, by how their path begins; all others may not.
ALLOWED = {
    "apache_beam": (
        *("components/beam/", "components/stores/beam_files.py"),
        "components/stores/beam_reads.py",
        *("components/stores/google.py", "components/stores/remote.py"),
        "components/ingest/run.py",
        *("components/transform/labels.py", "components/transform/run.py"),
        "components/transform/moments.py",
        *("components/evaluation/counting.py", "components/evaluation/counted_metrics.py"),
        *("pipeline/run/dataflow.py", "pipeline/run/ingest.py", "pipeline/run/template.py"),
    ),
    "tfx": (
        *(
            "components/beam/identifying_driver.py",
            "components/beam/tfx_components.py",
            "components/inference/component.py",
        ),
        "components/ingest/component.py",
        "components/transform/component.py",
        "components/evaluation/component.py",
        *("components/training/pusher.py", "pipeline/kubeflow/compile.py"),
        *("pipeline/kubeflow/step.py", "pipeline/pipeline.py"),
        "pipeline/run/local.py",
    ),
    "tensorflow": (
        *("components/augment/", "components/feeding/", "components/served/"),
        *("components/models/", "components/tasks/", "components/training/"),
        *("components/evaluation/", "components/inference/", "components/transform/"),
        *("components/views/", "components/labels/"),
    ),
    "keras": (
        *("components/models/", "components/training/"),
        *("pipeline/doctor/step.py", "pipeline/run/functions.py"),
    ),
    "tensorflow_transform": ("components/transform/",),
    "tfx_bsl": ("components/transform/record_batches.py",),
    "tensorflow_data_validation": ("pipeline/pipeline.py",),
    "tensorflow_model_analysis": ("components/evaluation/", "pipeline/show/"),
}


@functools.cache
def _imports(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _name(path):
    return path.relative_to(ROOT).as_posix()


def _rooms(imported):
    """The rooms of `components/` that the modules are in; root modules are in none."""
    parts = [name.removeprefix(OURS).split(".") for name in imported if name.startswith(OURS)]
    return {part[0] for part in parts if part[0] in ROOMS}


def _forbidden(name, imported):
    """What a file imports that it may not: our other rooms' own names, and libraries."""
    tops = {module.split(".")[0] for module in imported}
    yield from tops & {"components", "pipeline", "tests", "benchmarks"}
    for library, allowed in ALLOWED.items():
        if library in tops and (not name.startswith(allowed) or name.endswith("options.py")):
            yield library
    if name.startswith("components/"):
        ours = {module for module in imported if module.startswith("image_pipeline.")}
        yield from (module for module in ours if not f"{module}.".startswith(OURS))


def test_a_module_imports_only_what_stands_to_its_left():
    found = {_name(path): [*_forbidden(_name(path), _imports(path))] for path in SOURCES}
    assert len(found) > 100
    assert {name: forbidden for name, forbidden in found.items() if forbidden} == {}


def test_a_room_imports_only_rooms_before_it():
    later = {
        _name(path): _rooms(_imports(path)) - {*ROOMS[: ROOMS.index(path.parent.name) + 1]}
        for path in (ROOT / "components").glob("*/*.py")
    }
    assert {name: rooms for name, rooms in later.items() if rooms} == {}


def test_a_root_module_imports_no_room_and_serves_two():
    roots = {path for path in (ROOT / "components").glob("*.py") if path.name != "__init__.py"}
    # Files may lie in a store: the one thing the root knows of a room.
    rooms = {(path.name, room) for path in roots for room in _rooms(_imports(path))}
    assert rooms == {("files.py", "stores")}

    def users(path):
        used = f"{OURS}{path.stem}."
        return {
            other.parent
            for other in SOURCES
            if other != path and any(f"{each}.".startswith(used) for each in _imports(other))
        }

    assert [path.name for path in roots if len(users(path)) < 2] == []


def _modules():
    """Each of our modules, by its name, with its path."""
    for path in SOURCES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        inside = parts[parts[0] == "pipeline" :]
        yield ".".join(("image_pipeline", *inside)).removesuffix(".__init__"), path


def _room(module):
    """The folder of a module; of one in a root, the module itself."""
    parts = module.split(".")
    most = 3 if parts[1:2] == ["components"] else 2
    return ".".join(parts[:most])


@pytest.mark.parametrize("part_of", [str, _room], ids=["modules", "rooms"])
def test_no_circle_of_imports_also_not_of_those_within_functions(part_of):
    modules = dict(_modules())
    graph = {}
    for name, path in modules.items():
        for imported in _imports(path):
            module = imported if imported in modules else imported.rpartition(".")[0]
            pair = part_of(name), part_of(module)
            if module in modules and pair[0] != pair[1]:
                graph.setdefault(pair[0], set()).add(pair[1])
    assert len([*graphlib.TopologicalSorter(graph).static_order()]) > (len(ROOMS) + 20)


def test_the_lists_name_what_exists():
    folders = {path.parent.name for path in (ROOT / "components").glob("*/__init__.py")}
    assert folders == set(ROOMS)
    assert all((ROOT / each).exists() for allowed in ALLOWED.values() for each in allowed)
