import pytest

from image_pipeline.components.sources.folder import Folder
from image_pipeline.init import survey
from image_pipeline.init.survey import estimate_duplicates

pytestmark = pytest.mark.unit


def _write(folder, contents):
    for number, content in enumerate(contents):
        (folder / f"{number:04d}.jpg").write_bytes(content)
    source = Folder(str(folder))
    return source, list(source.list())


def test_the_share_is_exact_where_all_files_of_one_size_are_read(tmp_path):
    contents = [b"a1", b"a2", b"a1", b"a1", b"long", b"longer", b"other", b"rehto"]
    assert estimate_duplicates(*_write(tmp_path, contents)) == 2 / 8


def test_files_of_different_sizes_are_not_read(tmp_path):
    source, refs = _write(tmp_path, [b"x" * length for length in range(1, 9)])
    for each in tmp_path.iterdir():
        each.unlink()
    assert estimate_duplicates(source, refs) == 0


def test_of_many_files_some_groups_stand_for_the_others(tmp_path, monkeypatch):
    # In each of 100 groups of one size, one of four files is a copy.
    contents = [bytes([kind]) * length for length in range(1, 101) for kind in (1, 2, 3, 3)]
    source, refs = _write(tmp_path, contents)
    read = []
    real = survey.try_read
    monkeypatch.setattr(survey, "try_read", lambda ref, *more: read.append(ref) or real(ref, *more))
    monkeypatch.setattr(survey, "_MOST_FILES", 40)
    assert estimate_duplicates(source, refs) == 1 / 4
    assert len(read) == 40


def test_a_group_that_is_too_large_is_read_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "_MOST_FILES", 10)
    assert estimate_duplicates(*_write(tmp_path, [b"same"] * 30)) == 9 / 10


def test_no_files_have_no_copies(tmp_path):
    assert estimate_duplicates(*_write(tmp_path, [])) == 0
