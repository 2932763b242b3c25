"""An update of every kind of source writes what an ingest of all of it would, byte for byte."""

import pathlib
import shutil

import pytest

from image_pipeline.components.ingest.earlier import count_taken, find_earlier
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from tests.golden import cases
from tests.ingest_runs import make_pipeline

pytestmark = pytest.mark.e2e

# Of 13 images, and of 16 of which some are called or labelled otherwise.
FEW, MORE = (13, cases.CLASSES), (16, ("cat", "dog", "bee"))
# How many images are taken from the data set before: with a copy of the first, of all six videos,
# and of what a generator makes, none.
TAKEN = dict.fromkeys(("folder", "tar", "tar.gz", "zip"), 14) | {"video": 12, "generator": 0}


def _write(monkeypatch, case, folder, version):
    """Writes a version of a source; the path below the folder, or what else is given as images."""
    count, classes = version
    monkeypatch.setattr(cases, "COUNT", count)
    monkeypatch.setattr(cases, "CLASSES", classes)
    folder.mkdir()
    return case.make(folder)


def _sync(new: pathlib.Path, folder: pathlib.Path) -> None:
    """Makes a folder's files those of another; those that are the same keep their times."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and not (new / path.relative_to(folder)).exists():
            path.unlink()
    for path in new.rglob("*"):
        target = folder / path.relative_to(new)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and not (target.exists() and target.read_bytes() == path.read_bytes()):
            shutil.copy2(path, target)


def _list(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.mark.parametrize("name", cases.CASES)
def test_an_update_writes_what_an_ingest_of_all_would(monkeypatch, tmp_path, name):
    case = cases.CASES[name]
    options = IngestOptions(**cases.OPTIONS, **case.options)
    images = _write(monkeypatch, case, tmp_path / "source", FEW)
    run_ingest(str(images), str(tmp_path / "0"), str(tmp_path / "w"), options, make_pipeline)
    taken = []
    for number, version in enumerate((MORE, FEW), 1):
        _write(monkeypatch, case, tmp_path / f"version-{number}", version)
        _sync(tmp_path / f"version-{number}", tmp_path / "source")
        for folder, before in ((f"{number}", f"{number - 1}"), ("fresh", None)):
            earlier = before and find_earlier(str(tmp_path / before), "times")
            run_ingest(
                *(str(images), str(tmp_path / folder), str(tmp_path / "w"), options),
                make_pipeline,
                earlier=earlier,
            )
        assert _list(tmp_path / f"{number}") == _list(tmp_path / "fresh")
        taken.append(count_taken(str(tmp_path / f"{number}")))
        shutil.rmtree(tmp_path / "fresh")
    assert taken == [TAKEN.get(name, 13)] * 2
