"""Every file is listed once and in order, whatever the folders, and little of the list is held."""

import time

import hypothesis
import pytest
from hypothesis import strategies as st

from image_pipeline.components.stores import google
from image_pipeline.components.stores.google import list_files
from tests.object_store.bucket import Bucket

pytestmark = pytest.mark.unit


class Pages:
    """Pages of a bucket with these names, and how many were asked for."""

    def __init__(self, names, most=5):
        self.bucket = Bucket("bucket")
        for name in names:
            self.bucket.write(name, b"x" * len(name), "")
        self.most = most
        self.asked = 0

    def __call__(self, prefix, fields, delimiter="", pageToken=""):
        self.asked += 1
        page = self.bucket.list_page(prefix, delimiter, pageToken, self.most)
        answer = {"items": [each.describe("bucket") for each in page.objects]}
        answer |= {"prefixes": page.folders} if page.folders else {}
        return answer | ({} if page.next_name is None else {"nextPageToken": page.next_name})


def _names(pages, prefix=""):
    return [name for name, _, _ in list_files(pages, prefix)]


@hypothesis.given(
    st.sets(
        st.lists(st.sampled_from(["a", "b", "a-", "a0", "é", ""]), min_size=1, max_size=4).map(
            "/".join
        ),
        max_size=60,
    ),
    st.integers(1, 7),
)
def test_all_names_are_listed_in_the_order_of_their_bytes(names, most):
    expected = sorted((name for name in names if name), key=str.encode)
    assert _names(Pages([name for name in names if name], most)) == expected


@pytest.mark.parametrize("files_a_folder", [1, 4, 7, 60])
def test_folders_of_any_size_are_listed(monkeypatch, files_a_folder):
    monkeypatch.setattr(google, "_FOLDERS_A_PAGE", 1)
    names = [f"images/{n:02}/{m:03}" for n in range(30) for m in range(files_a_folder)]
    pages = Pages([*names, "images/00", "images/z", "other/a"])
    assert _names(pages, "images/") == ["images/00", *names, "images/z"]
    assert pages.asked <= 4 * (len(names) / pages.most + 2)


def test_a_file_s_size_and_time_of_change_are_told():
    pages = Pages(["abc"])
    ((name, size_bytes, changed_s),) = list_files(pages, "")
    assert (name, size_bytes) == ("abc", 3)
    assert changed_s == pytest.approx(time.time(), abs=600)


def test_who_stops_early_has_asked_for_little(monkeypatch):
    monkeypatch.setattr(google, "_THREADS", 2)
    pages = Pages([f"{n:03}/{m:03}" for n in range(100) for m in range(50)])
    listed = list_files(pages, "")
    assert next(listed)[0] == "000/000"
    listed.close()
    assert pages.asked <= 2 + 3 * 10
