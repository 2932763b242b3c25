import pytest

from components.dotted import load_object

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


@pytest.mark.parametrize("module", ["no_such_package.inside", "components.no_such_module"])
def test_a_missing_module_is_explained(module):
    with pytest.raises(ModuleNotFoundError, match=r"no module .*names; correct the path, or make"):
        load_object(f"{module}.build_model")


def test_a_missing_import_inside_the_module_passes_unchanged(tmp_path, monkeypatch):
    (tmp_path / "needs_more.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'not_installed_anywhere'$"):
        load_object("needs_more.anything")
