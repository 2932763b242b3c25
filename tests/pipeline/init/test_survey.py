"""What `init` looks at of the files: all of few, some of many."""

import pytest

from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import Folder
from image_pipeline.init import survey
from image_pipeline.init.mirror import Mirrored, look_at_mirrored
from image_pipeline.init.survey import estimate_duplicates, list_files, measure_some
from tests.drawings import draw_texts

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


@pytest.fixture
def source(tmp_path):
    (tmp_path / "a").mkdir()
    for number in range(12):
        (tmp_path / "a" / f"{number:02d}.jpg").write_bytes(b"x" * (number + 1))
    (tmp_path / "broken.jpg").symlink_to(tmp_path / "nowhere")
    return Folder(str(tmp_path))


def test_files_are_listed_as_ingest_lists_them(source):
    readable = [ref for ref in source.list() if ref.problem is None]
    assert list(list_files(source).values()) == readable
    assert measure_some(source, readable) is readable


def test_very_many_files_are_listed_alike_but_only_some_are_measured(source, monkeypatch):
    monkeypatch.setattr(survey, "_MANY", 10)
    monkeypatch.setattr(survey, "_SOME", 4)
    found = list_files(source)
    readable = {ref.path: ref for ref in source.list() if ref.problem is None}
    assert list(found) == list(readable) and not any(ref.size_bytes for ref in found.values())
    some = measure_some(source, list(found.values()))
    assert len(some) == 4 and all(readable[ref.path] == ref for ref in some)


def _look(folder):
    source = Folder(str(folder))
    return look_at_mirrored(
        source, list(source.list()), IngestOptions(label_pattern="(?P<label>[^/]+)/.+")
    )


def test_letters_are_not_mirrored(tmp_path):
    draw_texts(tmp_path, {"b": "b", "d": "d", "p": "p", "q": "q"})
    found = _look(tmp_path)
    assert found.images == 80 and found.guessed == 0.25
    assert found.accuracy > 0.9 and found.mirrored < 0.2 and found.changes_class


def test_what_is_its_own_mirror_image_is(tmp_path):
    draw_texts(tmp_path, {"o": "o", "i": "I", "minus": "-", "eight": "8"})
    found = _look(tmp_path)
    assert found.accuracy > 0.9 and found.mirrored > 0.8 and not found.changes_class


@pytest.mark.parametrize(
    ("accuracy", "mirrored", "changes"),
    [(0.5, 0.3, True), (0.5, 0.4, False), (0.2, 0.0, False), (0.9, 0.9, False)],
)
def test_only_what_is_known_can_be_mistaken(accuracy, mirrored, changes):
    assert Mirrored(500, accuracy, mirrored, guessed=0.2).changes_class is changes


def test_nothing_is_said_of_few(tmp_path):
    draw_texts(tmp_path / "few", {"b": "b", "d": "d"}, count=9)
    assert _look(tmp_path / "few") is None
    draw_texts(tmp_path / "one", {"b": "b"})
    (tmp_path / "one" / "c").mkdir()
    for number in range(12):
        (tmp_path / "one" / "c" / f"{number}.png").write_text("no image")
    assert _look(tmp_path / "one") is None
