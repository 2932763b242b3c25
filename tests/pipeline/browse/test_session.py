import importlib.resources
import json
import re
import shutil

import pytest

from image_pipeline.browse.catalogue import Query
from image_pipeline.browse.pictures import NoPicture
from image_pipeline.browse.session import PAGE_SIZE, Session
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.run.source_note import write_source
from tests.pipeline.browse.browsed import VIEW

pytestmark = pytest.mark.beam


@pytest.fixture
def session(browsed, tmp_path):
    return browsed.open(tmp_path)


def find(session, **query):
    return int(session.catalogue.find(Query(**query))[0])


def mark(session, number, marked):
    return session.mark(json.dumps({"number": number, "marked": marked}).encode())


def test_a_search_answers_a_page_of_texts(session):
    mark(session, find(session, path="cat/04"), True)
    told = session.search({"path": "cat/04", "split": "", "page": "7"})
    (entry,) = told.pop("entries")
    assert told == {"found": 1, "of": 27, "page": 0, "pages": 1, "marked": 1}
    assert (entry["path"], entry["label"], entry["size"]) == ("cat/04.png", "cat", "10 × 12 px")
    assert entry["is_marked"] is True
    (bad,) = session.search({"state": "quarantined"})["entries"]
    assert (bad["path"], bad["split"], bad["size"]) == ("dog/<b>.png", "", "")


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
    assert session.draw(find(session, path="copy"), "thumbnail", False).data == copy
    with pytest.raises(NoPicture, match="It is not stored: duplicate"):
        session.draw(find(session, path="copy"), "stored", False)
    with pytest.raises(NoPicture, match="cannot be decoded"):
        session.draw(find(session, path="<b>"), "thumbnail", False)


def test_only_records_have_views(browsed, tmp_path, session):
    with pytest.raises(UserError, match="How training makes its views is not known; start with"):
        session.list_views(0, False)
    for number in (24, -1):
        with pytest.raises(IndexError, match="only records have views, 0 to 23"):
            browsed.open(tmp_path, *VIEW).list_views(number, False)


def test_marks_are_of_paths_whatever_became_of_them(session, tmp_path):
    numbers = [find(session, path=path) for path in ("cat/04", "copy", "<b>")]
    told = [mark(session, number, True) for number in numbers]
    assert told == [{"marked": 1}, {"marked": 2}, {"marked": 3}]
    assert (tmp_path / "marks.txt").read_text() == "cat/04.png\ncat/copy.png\ndog/<b>.png\n"
    assert session.search({"marked": "1"})["found"] == 3
    assert mark(session, numbers[0], False) == {"marked": 2}
    assert session.search({"marked": "1"})["found"] == 2
    with pytest.raises(IndexError):
        mark(session, 99, True)
    assert (tmp_path / "marks.txt").read_text() == "cat/copy.png\ndog/<b>.png\n"


def test_the_page_escapes_what_it_says(browsed, tmp_path):
    page = browsed.open(tmp_path, marks_path=str(tmp_path / "<i>&.txt")).page.data.decode()
    assert "&lt;i&gt;&amp;.txt" in page and "<i>" not in page
    assert '<option value="not_an_image">Not an image (not_an_image, 1)</option>' in page
    assert "start with <code>--graph</code>" in page and "<fieldset hidden>" in page
    page = browsed.open(tmp_path, *VIEW, "feeding.augment=[]").page.data.decode()
    assert "no random steps" in page and "<fieldset hidden>" not in page


def test_the_page_is_made_of_its_own_files_only():
    folder = importlib.resources.files("image_pipeline.browse")
    script = (folder / "page.js").read_text()
    assert "innerHTML" not in script and "eval(" not in script
    for name in ("page.js", "page.css", "page.html.jinja"):
        assert not re.findall(r"https?://", (folder / name).read_text())
    assert "prefers-color-scheme: dark" in (folder / "page.css").read_text()


def test_views_need_to_know_how_they_are_made(browsed, graph_dir, tmp_path):
    assert browsed.open(tmp_path).views is None
    session = browsed.open(tmp_path, "feeding.augment=[flip_vertical]")
    assert [each.op for each in session.views.feeding.steps] == ["flip_vertical"]
    config = tmp_path / "c.yaml"
    config.write_text("{view: {height_px: 8, width_px: 8}, feeding: {augment: [grayscale]}}")
    by_config = browsed.open(tmp_path, config_path=str(config))
    assert [each.op for each in by_config.views.feeding.steps] == ["grayscale"]
    assert browsed.open(tmp_path, graph=graph_dir).views is not None
    assert browsed.open(tmp_path, graph=graph_dir, config_path=str(config)).views is not None


def test_a_view_that_the_graph_does_not_take_is_an_error(browsed, graph_dir, tmp_path):
    with pytest.raises(UserError, match="graph was made for"):
        browsed.open(tmp_path, "view.height_px=9", graph=graph_dir)
    with pytest.raises(UserError, match="holds no transform graph"):
        browsed.open(tmp_path, graph=str(browsed.images))


def test_the_images_are_those_that_ingest_noted(browsed, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(browsed.data, data)
    asked = {"folder": str(data), "marks_path": str(tmp_path / "marks.txt")}
    write_source(str(data), str(browsed.images), read_manifest(str(data)))
    session = Session(**asked)
    (row,) = session.catalogue.read([find(session, path="cat/04")])
    assert session.originals.read(row) == (browsed.images / "cat" / "04.png").read_bytes()


def test_what_a_data_set_notes_is_never_run(browsed, tmp_path):
    data, ran = tmp_path / "data", tmp_path / "ran"
    shutil.copytree(browsed.data, data)
    code = f"source:os:system:touch {ran}"
    write_source(str(data), code, read_manifest(str(data)))
    asked = {"folder": str(data), "marks_path": str(tmp_path / "marks.txt")}
    session = Session(**asked)
    (row,) = session.catalogue.read([find(session, path="cat/04")])
    with pytest.raises(NoPicture, match="give it with --images"):
        session.originals.read(row)
    assert not ran.exists()
    with pytest.raises(NoPicture, match="must open an object with list"):
        Session(**asked, images=code).originals.read(row)
    assert ran.exists()


def test_a_run_that_has_only_ingested_is_shown_as_its_data_set(browsed, tmp_path):
    shutil.copytree(browsed.data, tmp_path / "out/artifacts/ImageExampleGen/examples/3")
    session = Session(str(tmp_path / "out"), marks_path=str(tmp_path / "marks.txt"))
    assert session.views is None
    assert len(session.catalogue.find(Query())) == len(
        browsed.open(tmp_path).catalogue.find(Query())
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"config_path": "gone.yaml"}, "Cannot read the configuration"),
        ({"marks_path": "/proc/marks.txt"}, "Cannot write '/proc/marks.txt'"),
    ],
)
def test_what_is_wrong_is_said(browsed, tmp_path, asked, message):
    with pytest.raises(UserError, match=message):
        browsed.open(tmp_path, *VIEW, **asked)


def test_a_folder_that_is_no_data_set_is_refused(browsed):
    with pytest.raises(UserError, match="holds neither a complete data set"):
        Session(str(browsed.images))
