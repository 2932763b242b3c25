"""TFDV can be imported first, without TFX, where the stand-in was put in place."""

import importlib.metadata
import importlib.util
import subprocess
import sys
import types

import pytest

from image_pipeline.components.beam import sql_util

pytestmark = pytest.mark.unit


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A tfx-bsl without the module, beside some TFDV."""
    (tmp_path / "arrow").mkdir()
    found = types.SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)

    def install(version):
        monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
        return tmp_path / "arrow"

    return install


def test_it_is_written_once_where_tfdv_needs_it(installed):
    folder = installed("1.16.1")
    assert sql_util.put_in_place()
    written = (folder / "sql_util.py").read_text()
    assert not sql_util.put_in_place()
    made = {}
    exec(written, made)
    with pytest.raises(NotImplementedError, match="slices cannot be given as SQL: this version"):
        made["RecordBatchSQLSliceQuery"]("SELECT 1", None)


def test_where_tfdv_needs_none_nothing_is_written(installed):
    folder = installed("1.21.0")
    assert not sql_util.put_in_place()
    assert list(folder.iterdir()) == []


def test_a_module_that_is_there_stays(installed):
    folder = installed("1.16.1")
    (folder / "sql_util.cpython-311-x86_64-linux-gnu.so").write_bytes(b"")
    assert not sql_util.put_in_place()


def test_without_tfdv_nothing_is_done(monkeypatch):
    def miss(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", miss)
    assert not sql_util.put_in_place()


@pytest.mark.wide
@pytest.mark.e2e
def test_a_clone_imports_tfdv_without_tfx():
    code = "import tensorflow_data_validation, sys; print('tfx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
