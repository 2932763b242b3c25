"""RESULTS.md and its plots are what the generator makes of the raw results."""

import argparse
import ast
import json
import pathlib
import re

import pytest

from benchmarks.bench import folders, page
from benchmarks.bench.__main__ import compare, list_commands
from benchmarks.bench.environments import (
    Environment,
    NotInstalledError,
    make_environment,
    read_requirements,
)
from benchmarks.bench.figures import list_ratios
from benchmarks.bench.fits import Line, fit_line
from benchmarks.bench.raw import add_json_argument, describe_machine, find_commit, write_raw
from benchmarks.bench.tables import tabulate_growth, tabulate_read, tabulate_write

pytestmark = [pytest.mark.unit, pytest.mark.wide]


def _read_texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_page_is_that_of_the_raw_results():
    assert page.make_page(page.load_raw()) == page.PAGE.read_text(), "run make bench-page"


@pytest.mark.parametrize("name", page.PLOTS)
def test_plot_is_that_of_the_raw_results(name):
    made = page.make_plots(page.load_raw())[name]
    committed = (page.RESULTS_DIR / f"{name}.svg").read_text()
    assert _read_texts(made) == _read_texts(committed), "run make bench-page"
    assert len(_read_texts(made)) > 5


def test_page_says_where_and_when_it_was_measured():
    raw = {
        "order": {
            "date": "2030-01-02",
            "commit": "abc1234+",
            "machine": {"processor": "P", "cores": 3, "memory_gib": 4.5, "system": "Linux"},
            "versions": {"python": "3.11.1"},
            "arguments": {"records": 7, "readers": ["ours"], "seed": None},
            "results": {"quality": {}},
        }
    }
    text = page.make_page(raw)
    assert "2030-01-02, commit abc1234+; P, 3 cores, 4.5 GiB, Linux. python 3.11.1." in text
    assert "With records 7.\n" in text
    assert "## Order" in text and "## Reading" not in text


def test_writes_page_and_plots_from_a_folder(tmp_path):
    for name in ("read", "write"):
        (tmp_path / f"{name}.json").write_text((page.RESULTS_DIR / f"{name}.json").read_text())
    page.write_page(tmp_path, tmp_path / "PAGE.md")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("PAGE.md", "read.json", "read.svg", "write.json", "write.svg")
    ]
    assert "## Growth" not in (tmp_path / "PAGE.md").read_text()


# Tables and ratios from raw results that are small enough to work out by hand.
def _reader(*cpu_s, faults=()):
    rounds = [{"images": 100, "wall_s": 0.5, "cpu_s": cpu, "peak_mb": 1234.4} for cpu in cpu_s]
    return {"imported_mb": 10, "faults": list(faults), "rounds": rounds}


READ = {
    "tasks": {
        "val_raw": {
            "ours": _reader(0.2, 0.4, 0.3),
            "slow": _reader(0.4, 0.4, 0.4, faults=["mean is off"]),
            "gone": _reader(faults=["it ended: no"]),
        }
    },
    "left_out": {"absent": "no such package"},
}


def test_readers_are_sorted_and_faults_shown():
    lines = tabulate_read(READ)
    rows = [line for line in lines if line.startswith("| ")]
    assert rows[2] == "| **ours** | 3.0000 | 200 | 1,234 | – | yes |"
    assert rows[3] == "| slow | 4.0000 | 200 | 1,234 | 0.75 | mean is off |"
    assert "- gone: it ended: no" in lines and "- absent: no such package" in lines
    assert "**validation, raw 256 px → 224** (`val_raw`), 100 images" in lines


def test_writers_with_their_bytes():
    rounds = {"images": 10, "wall_s": 2.0, "cpu_s": 1.0, "bytes": 50_000}
    other = rounds | {"cpu_s": 4.0}
    results = {"images": 10, "writers": {"other": [other], "ours": [rounds]}, "left_out": {}}
    assert tabulate_write(results)[-2:] == [
        "| **ours** | 100.00 | 5 | 5.0 | – |",
        "| other | 400.00 | 5 | 5.0 | 0.25 |",
    ]


def test_growth_is_projected():
    rounds = [
        {"size": size, "images": 100 * size, "wall_s": 1 + 0.1 * size, "cpu_s": 0.2 * size}
        for size in (1, 3, 10)
    ]
    lines = tabulate_growth({"photos": 100, "stages": {"ingest": rounds, "epoch": rounds}})
    assert "| ingest | 1.10 | 1.30 | 2.00 | 1.000 | 1.00 | 2.000 | 0.00 | 0% |" in lines
    assert lines[-2] == "| ingest | 21 min | 3 min | 21 s |"  # 1 + 1,281.167 / workers seconds
    assert lines[-1] == "| epoch | 21 min | – | – |"


def test_no_line_is_no_projection():
    rounds = [{"size": n, "images": n, "wall_s": 9 - n, "cpu_s": 1.0} for n in (1, 3)]
    lines = tabulate_growth({"photos": 1, "stages": {"ingest": rounds}})
    assert lines[-1] == "| ingest | – | – | – |"


def test_ratios_stand_beside_committed_ones():
    raw = {"read": {"results": READ}}
    ratios = list_ratios(raw)
    assert ratios == {"val_raw: ours / slow": pytest.approx(0.75)}
    lines = compare(ratios | {"new": 2.0}, ratios).splitlines()
    assert lines[1].split()[-2:] == ["0.75", "0.75"]
    assert lines[2].split() == ["new", "2.00", "–"]


def test_commands_need_their_data():
    assert list(list_commands(None, None)) == ["order"]
    assert "end_to_end" not in list_commands("photos", None)
    small = list_commands(None, "small")
    assert "write" not in small and "small/train" in small["read"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.JPG").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "notes.txt").write_bytes(b"none")
    return tmp_path


def test_photos_are_found_at_any_depth(folder):
    assert folders.photos(str(folder)) == str(folder)
    assert [path.name for path in folders.list_photos(folder)] == ["a.JPG"]


@pytest.mark.parametrize("name", ["nope", "notes.txt"])
def test_what_is_no_folder_is_refused(folder, name):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a folder"):
        folders.photos(str(folder / name))


def test_what_only_looks_like_a_photo_is_none(tmp_path):
    (tmp_path / "b.jpeg").write_bytes(b"no photo")
    (tmp_path / "c.jpg").mkdir()
    with pytest.raises(argparse.ArgumentTypeError, match="has no photo"):
        folders.photos(str(tmp_path))


def test_classes_and_splits_are_looked_for(folder):
    assert folders.classes(str(folder)) == str(folder)
    with pytest.raises(argparse.ArgumentTypeError, match="train' is not a folder"):
        folders.splits(str(folder))
    (folder / "empty").mkdir()
    with pytest.raises(argparse.ArgumentTypeError, match="no files in class folders"):
        folders.classes(str(folder / "empty"))


def test_kept_data_of_something_else_ends_the_program(tmp_path):
    folders.claim(tmp_path / "kept", {"records": 1})
    folders.claim(tmp_path / "kept", {"records": 1})
    with pytest.raises(SystemExit, match="delete it, or give another folder as --keep"):
        folders.claim(tmp_path / "kept", {"records": 2})


# The fitted line: exact where the sizes lie on one, by relative errors where they do not.
def test_finds_the_line_that_was_drawn():
    rounds = [{"images": n, "wall_s": 2.5 + 0.01 * n} for n in (10, 30, 100, 300)]
    line = fit_line(rounds, "wall_s")
    assert line.slope == pytest.approx(0.01) and line.fixed == pytest.approx(2.5)
    assert line.worst == pytest.approx(0, abs=1e-9)


def test_small_sizes_count_as_much_as_large_ones():
    # The largest is 10 % off, which is 10 s: the fixed second is still found.
    seconds = {1: 1.01, 10: 1.1, 100: 2.0, 1_000: 11.0, 9_900: 110.0}
    line = fit_line([{"images": n, "cpu_s": s} for n, s in seconds.items()], "cpu_s")
    assert line.fixed == pytest.approx(1.0, abs=0.05)
    assert 0 < line.worst < 0.1


def test_workers_share_the_images_and_not_the_fixed_cost():
    assert Line(slope=0.5, fixed=3, worst=0).at(100) == 53
    assert Line(slope=0.5, fixed=3, worst=0).at(100, workers=5) == 13


# Environments: made once, made again when they should be others, and a reason where they fail.
def test_one_that_is_there_is_not_made_again(tmp_path):
    environment = Environment(packages=("no-such-package==0",))
    (tmp_path / ".ready").write_text(repr(environment))
    assert make_environment(environment, tmp_path) == str(tmp_path / "bin" / "python")


@pytest.mark.e2e
def test_a_reason_where_it_cannot_be_made(tmp_path):
    environment = Environment(packages=(), base=str(tmp_path / "no-python"))
    with pytest.raises(NotInstalledError, match="no-python"):
        make_environment(environment, tmp_path / "env")


@pytest.mark.e2e
def test_one_of_other_packages_is_made_again(tmp_path):
    (tmp_path / ".ready").write_text(repr(Environment(packages=("old==1",))))
    other = Environment(packages=("new==1",), base=str(tmp_path / "no-python"))
    with pytest.raises(NotInstalledError):
        make_environment(other, tmp_path)


def test_requirements_without_comments(tmp_path):
    path = tmp_path / "some.txt"
    path.write_text("# why\none==1\n\ntwo[extra]==2  # why\n")
    assert read_requirements(path) == ("one==1", "two[extra]==2")


# Raw results say what was measured where, and nothing of this machine's folders.
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


# What runs in a rival's own environment imports nothing that is not there: not this project.
BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
# What the rivals of `registry.py` run, and what packs their files there.
FOREIGN = ("dali", "ffcv", "grain", "spdl", "streaming", "tfds", "torch", "webdataset", "litdata")


def find_imports(module):
    """The names of all that a file imports, at its top or in a function, and those files import."""
    found, waiting = set(), {module}
    while waiting:
        path = BENCHMARKS.joinpath(*waiting.pop().split(".")).with_suffix(".py")
        for node in ast.walk(ast.parse(path.read_text())) if path.exists() else ():
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            waiting |= set(names) - found
            found |= set(names)
    return found


@pytest.mark.parametrize("name", FOREIGN)
def test_a_rivals_reader_does_without_this_project(name):
    imports = find_imports(f"rivals.{name}_reader")
    assert "rivals.protocol" in imports
    assert not {each for each in imports if each.startswith("image_pipeline")}


@pytest.mark.parametrize("name", ["pack", "ffcv_write"])
def test_what_packs_its_files_does_so_too(name):
    imports = find_imports(f"rivals.{name}")
    assert not {each for each in imports if each.startswith("image_pipeline")}


def test_the_bare_loop_has_it():
    assert "image_pipeline.components.views.jpeg_tiles" in find_imports("rivals.bare_loop")
