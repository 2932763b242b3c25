"""Folders of records that ingest did not write are told from data sets that are not whole."""

import os

import pytest

from image_pipeline.components.dataset.manifest import read_whole_manifest
from image_pipeline.components.dataset.other_records import explain_other_records
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from tests.data_set_files import write_tfrecord

pytestmark = pytest.mark.unit

OWN = "data_tfrecord-00000-of-00001"
INGEST = (
    "'{folder}' has no manifest.json, but TFRecords in {splits}, as ImportExampleGen and other "
    "programs write them. Ingest them, which keeps the splits: image-pipeline ingest "
    '--images {quoted} --output data; in a TFX pipeline, by ImageExampleGen("tfrecord:{folder}").'
)
RUN_AGAIN = " Or, if it was ingest that was writing it, run that again."


def _write(folder, name, examples=({"n": 1},), splits=("train", "eval")):
    for split in splits:
        (folder / f"Split-{split}").mkdir(parents=True, exist_ok=True)
        write_tfrecord(folder / f"Split-{split}" / name, examples)


@pytest.mark.parametrize(
    ("name", "further"),
    [(f"{OWN}.gz", ""), (f"{OWN}.zlib", ""), ("part-0.tfrecord", ""), (OWN, RUN_AGAIN)],
)
def test_what_the_folder_is_and_what_ingests_it_is_said(tmp_path, name, further):
    _write(tmp_path, name)
    said = INGEST.format(
        folder=tmp_path, splits="Split-eval, Split-train", quoted=f"tfrecord:{tmp_path}"
    )
    assert explain_other_records(f"{tmp_path}/") == said + further
    with pytest.raises(UserError) as error:
        read_whole_manifest(str(tmp_path))
    assert str(error.value) == said + further
    (finding,) = verify_data_set(str(tmp_path))
    assert str(finding) == f"manifest.json: {said}{further}"


def test_the_command_can_be_pasted_whatever_the_folder_is_called(tmp_path):
    folder = tmp_path / "my examples [1]"
    _write(folder, f"{OWN}.gz", splits=("my split", "train"))
    said = INGEST.format(
        folder=folder, splits="Split-my split, Split-train", quoted=f"'tfrecord:{folder}'"
    )
    assert explain_other_records(str(folder)) == said


def test_a_split_may_be_empty_and_files_may_lie_beside_the_records(tmp_path):
    _write(tmp_path, f"{OWN}.gz", examples=(), splits=("eval",))
    assert explain_other_records(str(tmp_path)) is None
    _write(tmp_path, f"{OWN}.gz", splits=("train",))
    (tmp_path / "Split-eval" / "below").mkdir()
    (tmp_path / "Split-eval" / "README.md").write_text("What this is.")
    os.mkfifo(tmp_path / "Split-eval" / "pipe")
    assert "TFRecords in Split-eval, Split-train," in explain_other_records(str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"\xff\xd8\xff\xe0" * 10, b"\x1f\x8b\x08" * 9, b"x" * 99])
def test_other_files_are_no_records(tmp_path, content):
    (tmp_path / "Split-train").mkdir()
    (tmp_path / "Split-train" / OWN).write_bytes(content)
    assert explain_other_records(str(tmp_path)) is None
    with pytest.raises(UserError, match="is incomplete"):
        read_whole_manifest(str(tmp_path))


def test_a_data_set_that_lost_its_manifest_is_ours(tmp_path):
    _write(tmp_path, OWN)
    (tmp_path / "index.parquet").write_bytes(b"")
    assert explain_other_records(str(tmp_path)) is None
