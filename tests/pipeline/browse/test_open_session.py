import dataclasses
import shutil

import pytest

from image_pipeline.browse.open_session import Asked, open_session
from image_pipeline.browse.originals import NoOriginal
from image_pipeline.browse.query import Query
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.run.source_note import write_source
from tests.pipeline.browse.browsed import VIEW

pytestmark = pytest.mark.beam


def test_views_need_to_know_how_they_are_made(browsed, graph_dir, tmp_path):
    assert browsed.open(tmp_path).views is None
    session = browsed.open(tmp_path, "feeding.augment=[flip_vertical]")
    assert session.views is not None and session.steps == ("flip_vertical probability 0.5",)
    config = tmp_path / "c.yaml"
    config.write_text("{view: {height_px: 8, width_px: 8}, feeding: {augment: [grayscale]}}")
    by_config = browsed.open(tmp_path, config_path=str(config))
    assert by_config.steps[0].startswith("grayscale")
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
    asked = Asked(str(data), marks_path=str(tmp_path / "marks.txt"))
    write_source(str(data), str(browsed.images), read_manifest(str(data)))
    session = open_session(asked)
    row = session.catalogue.read(int(session.catalogue.find(Query(path="cat/04"))[0]))
    assert session.originals.read(row) == (browsed.images / "cat" / "04.png").read_bytes()


def test_what_a_data_set_notes_is_never_run(browsed, tmp_path):
    data, ran = tmp_path / "data", tmp_path / "ran"
    shutil.copytree(browsed.data, data)
    code = f"source:os:system:touch {ran}"
    write_source(str(data), code, read_manifest(str(data)))
    asked = Asked(str(data), marks_path=str(tmp_path / "marks.txt"))
    session = open_session(asked)
    row = session.catalogue.read(int(session.catalogue.find(Query(path="cat/04"))[0]))
    with pytest.raises(NoOriginal, match="give it with --images"):
        session.originals.read(row)
    assert not ran.exists()
    with pytest.raises(NoOriginal, match="must open an object with list"):
        open_session(dataclasses.replace(asked, images=code)).originals.read(row)
    assert ran.exists()


def test_a_run_that_has_only_ingested_is_shown_as_its_data_set(browsed, tmp_path):
    shutil.copytree(browsed.data, tmp_path / "out/artifacts/ImageExampleGen/examples/3")
    asked = Asked(str(tmp_path / "out"), marks_path=str(tmp_path / "marks.txt"))
    session = open_session(asked)
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
        open_session(Asked(str(browsed.images)))
