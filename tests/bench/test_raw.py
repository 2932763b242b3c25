"""Raw results say what was measured where, and nothing of this machine's folders."""

import argparse
import json
import pathlib
import re

import pytest

from benchmarks.bench.raw import add_json_argument, describe_machine, find_commit, write_raw

pytestmark = [pytest.mark.unit, pytest.mark.wide]


@pytest.mark.e2e
def test_file_has_all_but_places(tmp_path):
    parser = argparse.ArgumentParser()
    parser.add_argument("--images")
    parser.add_argument("--records", type=int)
    add_json_argument(parser)
    path = tmp_path / "below" / "read.json"
    arguments = parser.parse_args(["--images", "/x", "--records", "3", "--json", str(path)])
    write_raw(arguments.json, "read", arguments, {"value": 1})
    raw = json.loads(path.read_text())
    assert raw["benchmark"] == "read" and raw["results"] == {"value": 1}
    assert raw["arguments"] == {"records": 3}
    assert raw["machine"] == describe_machine()
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", raw["date"]) and raw["commit"] == find_commit()
    assert {"python", "numpy", "tensorflow"} <= set(raw["versions"])


def test_nothing_is_written_without_a_file(tmp_path):
    write_raw(None, "read", argparse.Namespace(), {})
    assert not list(pathlib.Path(tmp_path).iterdir())


def test_machine_has_cores_and_memory():
    machine = describe_machine()
    assert machine["cores"] >= 1 and machine["memory_gib"] > 0 and machine["processor"]
