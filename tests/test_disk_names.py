"""The names and keys of the format on disk are spelled in `components/dataset/`, nowhere else."""

import ast
import pathlib

import pytest

from image_pipeline.components.dataset import paths, record

pytestmark = pytest.mark.unit

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = [
    path
    for folder in ("components", "pipeline", "kubeflow")
    for path in (ROOT / folder).rglob("*.py")
    if path.parent.name != "dataset"
]
NAMES = {
    *(paths.MANIFEST, paths.INDEX, paths.QUARANTINE, paths.DUPLICATES, paths.NEAR_DUPLICATES),
    *(paths.SKIPPED, paths.name_copy(""), "Split-", "data_tfrecord", "manifest_sha256"),
    *(column.key for column in record.COLUMNS),
}


def _texts(tree):
    """All strings of a module but what is for readers: a string that stands alone."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def _joined(tree):
    """Names that are joined to a path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "join":
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant))


def spelled_names(source):
    """The names and keys of the format on disk that a module spells."""
    tree = ast.parse(source)
    found = {name for text in _texts(tree) for name in NAMES if name in text}
    return found | ({*_joined(tree)} & {paths.name_copy("").rstrip("/")})


def test_no_other_room_spells_a_name_of_the_disk():
    found = {path.relative_to(ROOT).as_posix(): spelled_names(path.read_text()) for path in SOURCES}
    assert len(found) > 200
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ('f"{folder}/manifest.json"', "manifest.json"),
        ('f"Split-{split}/*"', "Split-"),
        ('read(["image/encoded"])', "image/encoded"),
        ('files.join(folder, "quarantine", content)', "quarantine"),
    ],
)
def test_a_name_that_is_spelled_is_found(source, name):
    assert name in spelled_names(f"value = {source}")


def test_what_is_only_said_is_none():
    assert spelled_names('def f():\n  """Reads `manifest.json`."""\n  return "quarantine"') == set()
