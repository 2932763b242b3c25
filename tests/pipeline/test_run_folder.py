"""What a run leaves is found where it is, also after the folder was moved."""

import json

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.named_folder import find_source
from image_pipeline.run_folder import RunFolder
from tests.data_set_files import write_tfrecord

pytestmark = pytest.mark.unit


def _leave(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


def test_outputs_are_listed_by_number_and_only_whole_ones(tmp_path):
    examples = "artifacts/ImageExampleGen/examples"
    _leave(tmp_path, *(f"{examples}/{n}/manifest.json" for n in ("9", "10", "temp", "1")))
    _leave(tmp_path, f"{examples}/11/index.parquet")
    _leave(tmp_path, "artifacts/ImageTransform/transform_graph/3/analysis.json")
    run = RunFolder(str(tmp_path))
    assert run.list_data_sets() == [f"{tmp_path}/{examples}/{n}" for n in (1, 9, 10)]
    assert run.list_graphs() == [f"{tmp_path}/artifacts/ImageTransform/transform_graph/3"]


def test_a_folder_that_is_not_there_has_nothing(tmp_path):
    run = RunFolder(str(tmp_path / "gone"))
    assert (run.list_data_sets(), run.list_graphs(), run.read_summary()) == ([], [], None)


def test_paths_of_a_summary_are_those_of_where_the_folder_is_now(tmp_path):
    run = RunFolder(str(tmp_path))
    assert run.relocate("/old/out/artifacts/Trainer/model/5") == (
        f"{tmp_path}/artifacts/Trainer/model/5"
    )
    assert run.relocate("/old/out/pushed_model/17") == f"{tmp_path}/pushed_model/17"
    assert run.relocate("/elsewhere/graph") == "/elsewhere/graph"


def test_a_summary_with_nan_of_an_earlier_version_is_read(tmp_path):
    (tmp_path / "summary.json").write_text('{"loss": NaN, "accuracy": 0.5}')
    assert RunFolder(str(tmp_path)).read_summary() == {"loss": None, "accuracy": 0.5}
    (tmp_path / "summary.json").write_text(json.dumps({"loss": 1}))
    assert RunFolder(str(tmp_path)).read_summary() == {"loss": 1}


@pytest.mark.parametrize("images", ["generator:my_data:records", "source:my_data:open_photos"])
def test_images_that_code_makes_are_no_data_set(images):
    with pytest.raises(UserError, match=f"{images}' is where images come from, but only what was"):
        find_source(images)


def test_records_of_another_program_are_no_data_set(tmp_path):
    (tmp_path / "Split-train").mkdir()
    write_tfrecord(tmp_path / "Split-train" / "data_tfrecord-00000-of-00001.gz", [{"n": 1}])
    with pytest.raises(UserError, match=f"ingest --images tfrecord:{tmp_path} --output data"):
        find_source(str(tmp_path))
