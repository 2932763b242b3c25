import shutil

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.tfx_metadata import check_metadata, open_metadata

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "metadata.db"
    open_metadata(str(path)).get_executions()
    return path


@pytest.fixture
def database(whole, tmp_path):
    (tmp_path / "artifacts" / "result").mkdir(parents=True)
    return shutil.copy(whole, tmp_path / "metadata.db")


def _check(database):
    check_metadata(str(database), str(database.parent / "artifacts"))


def test_a_whole_one_passes_and_is_not_touched(database):
    before = database.read_bytes()
    _check(database)
    assert database.read_bytes() == before


def test_none_is_a_first_run_and_stays_none(tmp_path):
    _check(tmp_path / "metadata.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", [0.3, 0.5, 0.9])
def test_a_truncated_one_is_refused(database, part):
    content = database.read_bytes()
    database.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(UserError, match=r"metadata\.db', cannot be used: .*Restore a copy") as got:
        _check(database)
    assert "\n" not in str(got.value) and len(str(got.value)) < 500


def test_what_is_no_database_is_refused(database):
    database.write_text("text " * 1000)
    with pytest.raises(UserError, match="cannot be used: file is not a database"):
        _check(database)


def test_an_emptied_one_is_refused_where_there_are_results(database):
    database.write_bytes(b"")
    with pytest.raises(UserError, match="it is empty, but there are results that it should list"):
        _check(database)
    (database.parent / "artifacts" / "result").rmdir()
    _check(database)  # Of a run that was interrupted before its first component.
