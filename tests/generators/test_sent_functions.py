"""A function is sent with what it refers to, and its module is not imported for it."""

import functools
import subprocess
import sys
import threading

import pytest

from image_pipeline.components.generators.generator_process import send_function

pytestmark = pytest.mark.unit

_MODULE = """
import json, xml.dom
FACTOR = 3
class Scale:
    def __call__(self, value):
        return FACTOR * value
def scale(value):
    return Scale()(value)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_scales.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import my_scales

    yield my_scales
    del sys.modules["my_scales"]


def _call_elsewhere(load, tmp_path):
    """What the function gives for 5 in a process that cannot import its module."""
    import cloudpickle

    (tmp_path / "sent").write_bytes(cloudpickle.dumps(load))
    script = f"import pickle, sys; print(pickle.load(open({str(tmp_path / 'sent')!r}, 'rb'))()(5))"
    script += "; print(sorted({'my_scales', 'xml.dom'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    return done.stdout.split("\n")[:2] if done.returncode == 0 else done.stderr


@pytest.mark.e2e
def test_code_and_values_travel(module, tmp_path):
    module.FACTOR = 4
    for function in (module.scale, module.Scale(), functools.partial(module.scale)):
        assert _call_elsewhere(send_function(function), tmp_path) == ["20", "[]"]


@pytest.mark.e2e
def test_what_cannot_travel_is_imported(module, tmp_path):
    module.FACTOR = threading.Lock()
    load = send_function(module.scale)
    assert "No module named 'my_scales'" in _call_elsewhere(load, tmp_path)
    assert load() is module.scale


def test_installed_functions_are_imported():
    assert send_function(subprocess.run)() is subprocess.run
    assert send_function(pytest.raises)() is pytest.raises


def test_what_cannot_be_sent_at_all_raises():
    lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot pickle"):
        send_function(lambda: lock)
