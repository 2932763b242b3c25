"""What `make quick` runs."""

import pytest

from tests import quick

pytestmark = pytest.mark.unit

TESTS = quick.ROOT / "tests"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("order/test_order.py", True),
        ("images/test_prepare.py", True),
        ("test_quick.py", True),
        ("feeding/test_input_fn.py", False),  # TensorFlow
        ("object_store", False),  # TensorFlow, by its conftest
        ("order", True),
        ("ingest", True),
        ("ingest/test_ingest.py", False),  # Beam, by what it imports
        ("pipeline/test_end_to_end.py", False),  # no unit tests
    ],
)
def test_what_is_quick(name, expected):
    assert quick.is_quick(TESTS / name) == expected


def test_what_a_function_imports_is_not_counted(tmp_path):
    path = tmp_path / "test_some.py"
    path.write_text("import numpy\ndef test_it():\n    import tensorflow as tf\n")
    assert quick.list_imports(path) == ("numpy",)
    path.write_text("if True:\n    from tensorflow import data\n")
    quick.list_imports.cache_clear()
    assert quick.list_imports(path) == ("tensorflow", "tensorflow.data")
    assert quick.imports_any({"tensorflow"}, path, set())


def test_imports_are_followed_in_circles(tmp_path):
    path = TESTS / "test_quick.py"
    seen = {TESTS / "quick.py"}
    assert not quick.imports_any({"tensorflow"}, path, seen)
    assert path in seen
