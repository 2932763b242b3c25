import concurrent.futures
import os

import pytest

from image_pipeline.browse.marks import Marks
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.options import IngestOptions

pytestmark = pytest.mark.unit


def test_each_change_is_in_the_file_at_once(tmp_path):
    path = tmp_path / "marks.txt"
    marks = Marks(str(path))
    assert not path.exists()
    assert [marks.set(each, True) for each in ("b é.png", "a.png")] == [1, 2]
    assert path.read_text() == "a.png\nb é.png\n"
    assert [marks.set(each, False) for each in ("a.png", "c.png")] == [1, 1]
    assert path.read_text() == "b é.png\n"
    assert os.listdir(tmp_path) == ["marks.txt"]
    again = Marks(str(path))
    again.set("z.png", True)
    assert again.paths == {"b é.png", "z.png"}
    assert IngestOptions(leave_out=str(path)).leave_out == ("b é.png", "z.png")


def test_nothing_is_lost_if_several_mark_at_once(tmp_path):
    marks = Marks(str(tmp_path / "marks.txt"))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: marks.set(f"{number:03d}", True), range(100)))
    lines = (tmp_path / "marks.txt").read_text().splitlines()
    assert lines == [f"{number:03d}" for number in range(100)]


def test_a_path_of_two_lines_is_refused_and_nothing_is_written(tmp_path):
    marks = Marks(str(tmp_path / "marks.txt"))
    with pytest.raises(ValueError, match="must be of one line, got 'a\\\\nb'; rename the file"):
        marks.set("a\nb", True)
    assert marks.paths == frozenset() and not (tmp_path / "marks.txt").exists()


def test_a_file_that_cannot_be_written_is_an_error_before_the_work(tmp_path):
    with pytest.raises(UserError, match=r"Cannot write .*: Is a directory"):
        Marks(str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot write"):
        Marks(str(tmp_path / "file" / "marks.txt"))


def test_processes_that_share_a_list_lose_no_marks(tmp_path):
    path = str(tmp_path / "marks.txt")
    lists = [Marks(path) for _ in range(4)]  # Each as a process of its own has it.
    assert [lists[0].set(each, True) for each in "ab"] == [1, 2]
    assert lists[1].set("c", True) == 3
    assert lists[0].set("a", False) == 2 and lists[0].paths == {"b", "c"}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: lists[number % 4].set(f"{number:02d}", True), range(60)))
    assert Marks(path).paths == {"b", "c", *(f"{number:02d}" for number in range(60))}


def test_a_link_to_a_list_stays_one(tmp_path):
    (tmp_path / "marks.txt").symlink_to("shared/marks.txt")
    (tmp_path / "shared").mkdir()
    Marks(str(tmp_path / "marks.txt")).set("a", True)
    assert (tmp_path / "marks.txt").is_symlink()
    assert (tmp_path / "shared" / "marks.txt").read_text() == "a\n"


def test_a_file_that_is_no_list_is_not_written_over(tmp_path, monkeypatch):
    (tmp_path / "image.jpg").write_bytes(b"\xff\xd8\xff\xe0\0\x10JFIF")
    for path, why in (
        (str(tmp_path / "image.jpg"), "it is not text"),
        (os.devnull, "not a regular file"),
        ("", "no name"),
    ):
        with pytest.raises(UserError, match=f"--marks must be a file .*{why}"):
            Marks(path)
    (tmp_path / "marks.txt").write_text("a\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # As of a file of another's.
    with pytest.raises(UserError, match="Permission denied; choose another"):
        Marks(str(tmp_path / "marks.txt"))
