"""Every file is listed once and in order, whatever the folders, and little of the list is held."""

import hypothesis
import pytest
from hypothesis import strategies as st

from image_pipeline.components.stores import objects
from image_pipeline.components.stores.objects import list_files

pytestmark = pytest.mark.unit


class Pages:
    """Pages of a bucket with these names, and how many were asked for."""

    def __init__(self, names, most=5):
        self.names, self.most, self.asked = sorted(names), most, 0

    def __call__(self, prefix, behind):
        start = f"{prefix}/" if prefix else ""
        names = [n for n in self.names if n.startswith(start) and (behind is None or n > behind)]
        for first in range(0, len(names), self.most):
            self.asked += 1
            yield [{"path": name} for name in names[first : first + self.most]]


def _names(pages, prefix=""):
    return [item["path"] for item in list_files(pages, prefix)]


@hypothesis.given(
    st.sets(
        st.lists(st.sampled_from(["a", "b", "a-", "a0", "é"]), min_size=1, max_size=4).map(
            "/".join
        ),
        max_size=60,
    ),
    st.integers(1, 7),
    st.integers(1, 4),
)
def test_all_names_are_listed_in_order(names, most, folders_a_page):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "_FOLDERS_A_PAGE", folders_a_page)
        patch.setattr(objects, "_BLOCK_PAGES", 2)
        assert _names(Pages(names, most)) == sorted(names)


@pytest.mark.parametrize("files_a_folder", [1, 4, 7, 60])
def test_folders_of_any_size_are_listed(monkeypatch, files_a_folder):
    monkeypatch.setattr(objects, "_FOLDERS_A_PAGE", 1)
    names = [f"images/{n:02}/{m:03}" for n in range(30) for m in range(files_a_folder)]
    pages = Pages([*names, "images/00", "images/z", "other/a"])
    assert _names(pages, "images") == ["images/00", *names, "images/z"]
    assert pages.asked <= 2 * (len(names) / pages.most + 2) + 30


def test_large_folders_are_listed_side_by_side(monkeypatch):
    """While the first folder's pages are taken, other folders' are, too."""
    names = [f"{n:02}/{m:03}" for n in range(8) for m in range(50)]
    pages, taken = Pages(names), []
    real = objects._take_pages

    def take(found):
        taken.append(found.folder)
        return real(found)

    monkeypatch.setattr(objects, "_take_pages", take)
    listed = list_files(pages, "")
    assert next(listed)["path"] == "00/000"
    assert len(set(taken)) >= 7
    assert ["00/000", *(item["path"] for item in listed)] == names


def test_who_stops_early_has_asked_for_little(monkeypatch):
    monkeypatch.setattr(objects, "_THREADS", 2)
    pages = Pages([f"{n:03}/{m:03}" for n in range(100) for m in range(50)])
    listed = list_files(pages, "")
    assert next(listed)["path"] == "000/000"
    listed.close()
    assert pages.asked <= 2 + 3 * 10
