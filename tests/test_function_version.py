import posixpath
import shutil

import pytest

from image_pipeline.components import function_version as module
from image_pipeline.components.errors import UserError
from image_pipeline.components.function_version import (
    ROOMS,
    code_version,
    function_version,
    source_version,
)

pytestmark = pytest.mark.unit

SOURCE = """
raise ValueError("it is not imported")
from elsewhere import build
if build:
    def run_fn(fn_args): ...
class Steps: ...
warm_up: int = 3
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def write(source):
        (tmp_path / "my_trainer.py").write_text(source)
        return str(tmp_path / "my_trainer.py")

    return write


@pytest.mark.parametrize("name", ["run_fn", "build", "Steps", "warm_up"])
def test_whatever_the_file_names_has_its_version(write, name):
    write(SOURCE)
    before = function_version(f"my_trainer.{name}")
    assert before == source_version(f"my_trainer.{name}")
    write(SOURCE + "# edited\n")
    assert function_version(f"my_trainer.{name}") != before


def test_a_name_that_the_file_does_not_define_is_told(write):
    path = write(SOURCE)
    for missing, hint in (("run_fm", " Did you mean run_fn?"), ("fn_args", "")):
        with pytest.raises(UserError) as raised:
            function_version(f"my_trainer.{missing}")
        assert str(raised.value) == (
            f"{path!r} defines no {missing!r}, which 'my_trainer.{missing}' names; define it there "
            f"or correct the path.{hint}"
        )


@pytest.mark.parametrize("source", ["from elsewhere import *", "def __getattr__(name): ..."])
def test_names_that_only_the_import_tells_may_be_any(write, source):
    write(source)
    assert function_version("my_trainer.run_fn") == source_version("my_trainer.run_fn")


def test_a_file_that_is_no_python_is_told(write):
    path = write("def run_fn(:")
    with pytest.raises(UserError, match=f"'{path}' is not valid Python: SyntaxError: "):
        function_version("my_trainer.run_fn")


@pytest.mark.parametrize("path", ["misspelt.run_fn", "no.such.module.run_fn", "run_fn", "sys.path"])
def test_a_module_without_a_file_is_told(path):
    with pytest.raises(UserError) as raised:
        function_version(path)
    assert str(raised.value) == (
        "function_version takes the dotted path of a function in a file, such as "
        f"'my_trainer.run_fn', got {path!r}, of which no module's file is found; correct it, or "
        "make the module importable: start in its folder, install its package, or set PYTHONPATH."
    )
    assert source_version(path) == "0" * 16


def test_a_function_itself_is_told():
    with pytest.raises(UserError, match=r"got <function join at .*>, which is not text; give the"):
        function_version(posixpath.join)


def test_a_change_in_a_room_changes_its_version_only(tmp_path, monkeypatch):
    copy = tmp_path / "components"
    shutil.copytree(module.pathlib.Path(module.__file__).parent, copy)
    monkeypatch.setattr(module, "__file__", str(copy / "function_version.py"))
    before = code_version("ingest"), code_version("training")
    (copy / "ingest" / "order.py").write_text("# changed")
    assert code_version("ingest") != before[0]
    assert code_version("training") == before[1]


def test_shared_modules_and_images_count_for_every_room(tmp_path, monkeypatch):
    copy = tmp_path / "components"
    shutil.copytree(module.pathlib.Path(module.__file__).parent, copy)
    monkeypatch.setattr(module, "__file__", str(copy / "function_version.py"))
    before = code_version("ingest")
    (copy / "record.py").write_text("# changed")
    assert code_version("ingest") != before


def test_every_room_is_known():
    here = module.pathlib.Path(module.__file__).parent
    assert sorted(path.parent.name for path in here.glob("*/__init__.py")) == list(ROOMS)
