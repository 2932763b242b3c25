import importlib
import sys

import pytest

from image_pipeline.components.dotted import follow_rename, load_object
from image_pipeline.components.models.options import TrainingOptions

pytestmark = pytest.mark.unit


def test_loads_a_function_of_a_module():
    import os.path

    assert load_object("os.path.join") is os.path.join


@pytest.mark.parametrize("path", ["join", "", "os.path.", ".join"])
def test_a_path_without_a_module_or_a_name_is_refused(path):
    with pytest.raises(ValueError, match=f"must be 'package.module.name', got '{path}'"):
        load_object(path)


def test_a_missing_name_brings_the_nearest_match():
    with pytest.raises(
        AttributeError, match=r"'os.path' has no 'jion', which 'os.path.jion'.*Did you mean join\?"
    ):
        load_object("os.path.jion")


def test_a_missing_name_like_no_other_brings_no_match():
    with pytest.raises(AttributeError, match=r"correct the path\.$"):
        load_object("os.path.qqqqqqqq")


@pytest.mark.parametrize("module", ["no_such_package.inside", "image_pipeline.no_such_module"])
def test_a_missing_module_is_explained(module):
    with pytest.raises(ModuleNotFoundError, match=r"no module .*names; correct the path, or make"):
        load_object(f"{module}.build_model")


def test_a_missing_import_inside_the_module_passes_unchanged(tmp_path, monkeypatch):
    (tmp_path / "needs_more.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'not_installed_anywhere'$"):
        load_object("needs_more.anything")


def test_a_path_from_before_the_rename_is_followed_with_a_warning():
    old = "components.models.model.build_model"
    with pytest.warns(FutureWarning, match=rf"^{old} is now called image_pipeline\.{old}; write"):
        assert TrainingOptions(model=old).model == f"image_pipeline.{old}"
    with pytest.warns(FutureWarning):
        assert follow_rename("pipeline.config.load_config") == "image_pipeline.config.load_config"


@pytest.mark.parametrize("path", ["components.mine.build", "pipeline.build", "components", "a.b"])
def test_other_paths_are_left_alone(path, recwarn):
    assert follow_rename(path) == path
    assert not recwarn.list


def test_a_person_s_own_components_are_left_alone(tmp_path, monkeypatch, recwarn):
    folder = tmp_path / "components" / "models"
    folder.mkdir(parents=True)
    for path in (folder.parent / "__init__.py", folder / "__init__.py", folder / "model.py"):
        path.write_text("")
    for name in [name for name in sys.modules if name.split(".")[0] == "components"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    path = "components.models.model.build_model"
    assert follow_rename(path) == path
    assert not recwarn.list
