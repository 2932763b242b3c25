"""What `make test` leaves out of stacked lists: no value, of three lists and more no pair."""

import concurrent.futures
import contextlib
import itertools
import multiprocessing
import os
import pty
import subprocess
import sys
from types import SimpleNamespace

import hypothesis
import pytest

from tests import quick
from tests.plain import only_plain_functions
from tests.tiers import few, list_unmarked, thin_out, wide

pytestmark = pytest.mark.unit


class Item:
    """A test of one function, as far as it is looked at."""

    def __init__(self, marks, params):
        self.marks, self.params = [each.mark for each in marks], params
        self.function, self.nodeid = Item, "test_it"
        self.callspec = SimpleNamespace(params=params)

    def iter_markers(self, name):
        return (mark for mark in self.marks if mark.name == name)

    def get_closest_marker(self, name):
        return next(self.iter_markers(name), None)

    def add_marker(self, mark):
        self.marks.append(mark.mark)


def collect(lists, **fixtures):
    """All combinations of the rows of lists, by their names, and of the values of fixtures."""
    stacked = [pytest.mark.parametrize(names, rows) for names, rows in lists.items()]
    fixed = {(name,): [pytest.param(value) for value in fixtures[name]] for name in fixtures}
    named = {tuple(names.split(", ")): rows for names, rows in lists.items()} | fixed
    for rows in itertools.product(*named.values()):
        params = {}
        for names, row in zip(named, rows, strict=True):
            params |= zip(names, row.values, strict=True)
        yield Item([*stacked, *itertools.chain(*(row.marks for row in rows))], params)


def rows_of(*values):
    return [pytest.param(*(each if isinstance(each, tuple) else (each,))) for each in values]


def kept(lists, **fixtures):
    """What of it is left, a tuple of all values each."""
    items = list(collect(lists, **fixtures))
    thin_out(items)
    return [tuple(item.params.values()) for item in items if not item.get_closest_marker("wide")]


def test_one_list_stays_as_it_is_with_its_fixture():
    assert len(kept({"a": rows_of(1, 2, 3)}, b="xy")) == 6


def test_of_two_lists_each_value_is_tried_and_as_few_as_can_be():
    assert kept({"a": rows_of(1, 2, 3), "b": rows_of("x", "y")}) == [(1, "x"), (2, "y"), (3, "x")]


def test_of_three_lists_each_pair_is_tried():
    tried = kept({"a": rows_of(1, 2), "b": rows_of(None, True), "c": rows_of("x", "y", "z")})
    assert len(tried) < 12
    for one, other in itertools.combinations(range(3), 2):
        pairs = {(values[one], values[other]) for values in tried}
        assert len(pairs) == (4 if (one, other) == (0, 1) else 6)


def test_rows_that_begin_alike_are_each_tried():
    rows = rows_of(("run", 1), ("run", 2), ("run", 3))
    assert {values[:2] for values in kept({"a, b": rows, "c": rows_of("x", "y")})} == {
        ("run", 1),
        ("run", 2),
        ("run", 3),
    }


def test_the_values_of_a_fixture_are_each_tried():
    tried = kept({"a": rows_of(1, 2), "b": rows_of(3, 4)}, name="xyz")
    assert {name for _, _, name in tried} == {"x", "y", "z"}


def test_a_wide_row_does_not_stand_for_others():
    tried = kept({"a": [wide(1), *rows_of(2, 3)], "b": rows_of("x", "y", "z")})
    assert {b for _, b in tried} == {"x", "y", "z"} and {a for a, _ in tried} == {2, 3}


def test_what_is_whole_stays_so():
    items = list(collect({"a": rows_of(1, 2, 3), "b": rows_of("x", "y")}))
    for item in items:
        item.add_marker(pytest.mark.whole)
    thin_out(items)
    assert not any(item.get_closest_marker("wide") for item in items)


def test_a_test_without_a_kind_is_named():
    marked = [Item([getattr(pytest.mark, kind)], {}) for kind in ("unit", "beam", "e2e")]
    assert list_unmarked([*marked, Item([pytest.mark.wide], {})]) == ["test_it"]


def test_few_examples_are_a_third_of_those_of_the_tier():
    assert few() == hypothesis.settings().max_examples // 3


TESTS = quick.ROOT / "tests"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("order/test_order.py", True),
        ("images/test_prepare.py", True),
        ("test_tiers.py", True),
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
    path = TESTS / "test_tiers.py"
    seen = {TESTS / "quick.py"}
    assert not quick.imports_any({"tensorflow"}, path, seen)
    assert path in seen


COMMAND = ["/bin/true"]


def _submit():
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        pool.submit(int).result()


STARTS = {
    "Popen": lambda: subprocess.Popen(COMMAND),
    "run": lambda: subprocess.run(COMMAND),
    "check_output": lambda: subprocess.check_output(COMMAND),
    "popen": lambda: os.popen("true"),
    "system": lambda: os.system("true"),
    "posix_spawn": lambda: os.posix_spawn(COMMAND[0], COMMAND, {}),
    "posix_spawnp": lambda: os.posix_spawnp(COMMAND[0], COMMAND, {}),
    "spawnv": lambda: os.spawnv(os.P_WAIT, COMMAND[0], COMMAND),
    "fork": lambda: os.fork() or os._exit(0),
    "forkpty": lambda: os.forkpty()[0] or os._exit(0),
    "pty.fork": lambda: pty.fork()[0] or os._exit(0),
    "Process": lambda: multiprocessing.Process(target=int).start(),
    "spawn": lambda: multiprocessing.get_context("spawn").Process(target=int).start(),
    "Pool": lambda: multiprocessing.Pool(1),
    "ProcessPoolExecutor": _submit,
}


@pytest.mark.parametrize("name", STARTS)
def test_a_process_is_refused_whatever_catches_errors(name):
    with (
        pytest.raises(pytest.fail.Exception, match="A unit test starts no process"),
        only_plain_functions(),
        contextlib.suppress(Exception),
    ):
        STARTS[name]()


@pytest.mark.parametrize("name", ["fit", "train_on_batch"])
def test_training_is_refused_of_every_kind_of_model(monkeypatch, name):
    class Model:
        fit = train_on_batch = print

    class Own(Model):
        pass

    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(Model=Model))
    refused = pytest.raises(pytest.fail.Exception, match=rf"fits no model \({name}\)")
    with only_plain_functions(), refused:
        getattr(Own(), name)()
    getattr(Own(), name)()


def test_afterwards_all_is_as_before():
    before = os.fork, subprocess.Popen.__init__
    with only_plain_functions():
        assert os.fork != before[0]
    assert (os.fork, subprocess.Popen.__init__) == before
