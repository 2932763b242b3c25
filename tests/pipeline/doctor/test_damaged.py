"""The doctor reads a damaged data set as training does: it stops at a record, or skips it."""

import json
import shutil

import numpy as np
import pytest

from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.doctor.subject import open_subject, sample_records
from tests.pipeline.test_commands import call

pytestmark = pytest.mark.beam

SIZE = ("--set", "view.height_px=8", "--set", "view.width_px=8", "--step-ms", "1")
QUICK = ("--seconds", "0.1", "--set", "feeding.batch_size=8", *SIZE)


@pytest.fixture(scope="module")
def damaged(data_dir, tmp_path_factory):
    """The data set, with a byte changed in its first PNG's signature."""
    folder = tmp_path_factory.mktemp("damaged") / "data"
    shutil.copytree(data_dir, folder)
    shard = min(folder.glob("Split-train/*"))
    content = bytearray(shard.read_bytes())
    content[content.index(b"\x89PNG")] = 0
    shard.write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("bad_records=stop", "is damaged: its data or the data's checksum is damaged"),
        ("verify=none", "is damaged: its image cannot be decoded (Unknown image file format"),
        ("source=streaming", "A shard is damaged: corrupted record at 12; `image-pipeline verify`"),
    ],
)
def test_a_damaged_record_is_one_message(option, message, damaged):
    result, output = call("doctor", damaged, *QUICK, "--set", f"feeding.{option}")
    assert result.exit_code == 1 and message in output
    assert "Traceback" not in output and "function_node" not in output


@pytest.mark.wide
def test_what_training_skips_the_doctor_skips_too(damaged):
    skip = ("--set", "feeding.bad_records=skip")
    result, _ = call("doctor", damaged, *QUICK, *skip, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["stages"]["every_image"]["decode"]["images"] >= 8


def open_damaged(damaged, **options):
    feeding = FeedingOptions.model_validate({"batch_size": 8, **options})
    view = ViewOptions(height_px=8, width_px=8)
    return open_subject([f"{damaged}/Split-train/*"], view, feeding, TrainingOptions(), None)


def test_the_sample_is_of_the_whole_data_set(data_dir, monkeypatch):
    subject = open_damaged(data_dir)
    monkeypatch.setattr("image_pipeline.doctor.subject._SAMPLE", 5)
    index = subject.records.index
    rows = [0, *(int(share * (len(index) - 1) / 4) for share in (1, 2, 3)), len(index) - 1]
    read = [subject.records.read_serialized(np.array([row]), verify=True)[0] for row in rows]
    assert sample_records(subject).tolist() == read


def test_records_that_are_cut_off_are_not_in_the_sample(data_dir, tmp_path):
    folder = shutil.copytree(data_dir, tmp_path / "data")
    subject = open_damaged(folder)
    shard = max(folder.glob("Split-train/*"))
    with open(shard, "rb+") as file:
        file.truncate(shard.stat().st_size - 1)
    assert len(sample_records(subject)) == subject.records.count() - 1
