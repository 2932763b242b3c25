import json
import pathlib
import shutil

import nbformat
import pytest
from nbclient import NotebookClient

from tests import warm
from tests.notebooks.modules import NOTEBOOKS as FOLDER

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read_notebook(path: pathlib.Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path):
    notebook = read_notebook(path)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in code_cells(notebook):
        assert cell.outputs == [] and cell.execution_count is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_defines_nothing(path):
    for cell in code_cells(read_notebook(path)):
        if cell.source.startswith("%%writefile "):
            continue  # A module that the notebook shows how to write.
        starts = {line.split(" ")[0] for line in cell.source.splitlines()}
        assert not starts & {"def", "class"}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Where Jupyter finds a kernel that begins with TFX imported, under the usual name."""
    folder = tmp_path_factory.mktemp("jupyter")
    (folder / "kernels" / "python3").mkdir(parents=True)
    # A kernel ends if its parent is not the process of this variable: here it is warm's server.
    python = ["env", "-u", "JPY_PARENT_PID", *warm.python()]
    spec = {
        "argv": [*python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3",
        "language": "python",
    }
    (folder / "kernels" / "python3" / "kernel.json").write_text(json.dumps(spec))
    return folder


# The first one imports for itself, as a person's does.
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_pictures(path, kernels, tmp_path, monkeypatch):
    if path != NOTEBOOKS[0]:
        monkeypatch.setenv("JUPYTER_PATH", str(kernels))
    monkeypatch.setenv("OUTPUT_DIR", str(tmp_path / "output"))
    for variable in ("IMAGES_DIR", "CONFIG", "RUN_DIR"):
        monkeypatch.delenv(variable, raising=False)
    notebook = read_notebook(path)
    # A copy of the folder: what a notebook needs is installed or stands beside it, as in Jupyter.
    folder = tmp_path / "notebooks"
    beside = [file.name for file in FOLDER.iterdir() if file.suffix in (".py", ".yaml")]
    shutil.copytree(FOLDER, folder, ignore=lambda _, names: set(names) - set(beside))
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=1200, kernel_name="python3", resources=resources).execute()

    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    # Messages of libraries would bury what the notebook shows.
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["notebooks", "output"]
    left = {entry.name for entry in folder.iterdir()} - {"__pycache__"}
    assert left == {"grid.py", "masked_photos.py", "photos.py", "photos.yaml"}
