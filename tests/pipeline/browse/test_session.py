import re

import pytest

from image_pipeline.browse.originals import NoOriginal
from image_pipeline.browse.query import Query
from image_pipeline.browse.session import PAGE_SIZE, read_asset

pytestmark = pytest.mark.beam


@pytest.fixture
def session(browsed, tmp_path):
    return browsed.open(tmp_path)


def find(session, **query):
    return int(session.catalogue.find(Query(**query))[0])


def test_a_search_answers_a_page_of_texts(session):
    session.mark([find(session, path="cat/04")], True)
    told = session.search({"path": "cat/04", "split": "", "page": "7"})
    (entry,) = told.pop("entries")
    assert told == {"found": 1, "of": 27, "page": 0, "pages": 1, "marked": 1}
    assert (entry["path"], entry["label"], entry["size"]) == ("cat/04.png", "cat", "10 × 12 px")
    assert re.fullmatch(r"\d+ B", entry["bytes"]) and entry["is_marked"] is True
    (bad,) = session.search({"state": "quarantined"})["entries"]
    assert (bad["path"], bad["split"], bad["size"], bad["bytes"]) == ("dog/<b>.png", "", "", "10 B")


def test_pages_divide_what_is_found(session, monkeypatch):
    assert PAGE_SIZE == 60
    monkeypatch.setattr("image_pipeline.browse.session.PAGE_SIZE", 10)
    pages = [session.search({"page": str(page)}) for page in range(4)]
    assert [each["page"] for each in pages] == [0, 1, 2, 2]
    numbers = [entry["number"] for page in pages[:3] for entry in page["entries"]]
    assert numbers == list(range(27)) and pages[0]["pages"] == 3


def test_a_record_is_described_with_its_row(session):
    told = session.describe(find(session, path="cat/04"))
    facts = dict(told["facts"])
    assert (facts["source_height"], facts["source_width"], facts["label"]) == ("12", "10", "cat")
    assert told["pictures"] == ["original", "stored"] and told["has_views"] is False
    rejected = session.describe(find(session, path="copy"))
    assert dict(rejected["facts"])["message"] == "has the bytes of cat/00.png"
    assert dict(rejected["facts"])["reason"] == "duplicate"
    assert rejected["pictures"] == ["original"]


def test_pictures_of_records_and_of_rejected_files(session, browsed):
    number = find(session, path="cat/04")
    original = (browsed.images / "cat" / "04.png").read_bytes()
    assert session.draw(number, "original", False) == ("image/png", original)
    assert session.draw(number, "stored", False) == session.draw(number, "thumbnail", False)
    copy = (browsed.images / "cat" / "copy.png").read_bytes()
    assert session.draw(find(session, path="copy"), "thumbnail", False).content == copy
    with pytest.raises(NoOriginal, match="It is not stored: duplicate"):
        session.draw(find(session, path="copy"), "stored", False)
    with pytest.raises(NoOriginal, match="cannot be decoded"):
        session.draw(find(session, path="<b>"), "thumbnail", False)
    for name in ("0", "-1", "x"):
        with pytest.raises(IndexError, match=f"there are 0 views, and no picture '{name}'"):
            session.draw(number, name, False)
    assert session.list_views(number, False) == []


def test_marks_are_of_paths_whatever_became_of_them(session, tmp_path):
    numbers = [find(session, path=path) for path in ("cat/04", "copy", "<b>")]
    assert session.mark(numbers, True) == {"marked": 3}
    assert (tmp_path / "marks.txt").read_text() == "cat/04.png\ncat/copy.png\ndog/<b>.png\n"
    assert session.search({"marked": "1"})["found"] == 3
    assert session.mark(numbers[:1], False) == {"marked": 2}
    assert session.search({"marked": "1"})["found"] == 2
    with pytest.raises(IndexError):
        session.mark([0, 99], True)
    assert (tmp_path / "marks.txt").read_text() == "cat/copy.png\ndog/<b>.png\n"


def test_the_page_escapes_what_it_says(browsed, tmp_path):
    page = browsed.open(tmp_path, marks_path=str(tmp_path / "<i>&.txt")).page
    assert "&lt;i&gt;&amp;.txt" in page and "<i>" not in page
    assert '<option value="not_an_image">Not an image (not_an_image, 1)</option>' in page
    assert 'data-views="0"' in page and "start with <code>--graph</code>" in page


def test_the_page_is_made_of_its_own_files_only():
    script = read_asset("page.js")
    assert "innerHTML" not in script and "eval(" not in script
    for name in ("page.js", "page.css", "page.html.jinja"):
        assert not re.findall(r"https?://", read_asset(name))
    assert "prefers-color-scheme: dark" in read_asset("page.css")
