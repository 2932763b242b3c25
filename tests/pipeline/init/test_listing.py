import pytest

from image_pipeline.components.sources.folder import Folder
from image_pipeline.init import survey
from image_pipeline.init.survey import list_files, measure_some

pytestmark = pytest.mark.unit


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
