"""Files of a run whose checksums are right, or that have none, though their content is not."""

import sqlite3

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.facts import (
    COLUMNS,
    MISLABELLED,
    OUTLIER_COLUMNS,
    OUTLIERS,
    read_mislabelled,
    read_outliers,
    write_csv,
)
from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.components.training.history import HISTORY_FILE, read_history
from image_pipeline.history.past_runs import PastRun, Step
from image_pipeline.report.difference import read_anomalies
from image_pipeline.run_folder import RunFolder
from image_pipeline.show.history import describe_runs, history_lines
from image_pipeline.tfx_metadata import check_metadata

pytestmark = pytest.mark.unit


def test_waits_and_times_of_different_epochs_are_refused(tmp_path):
    said = {"metrics": {}, "steps_per_epoch": 1, "seconds_per_epoch": [1.0, 1.0]}
    said |= {"training_seconds_per_epoch": [1.0], "input_wait_seconds_per_epoch": [0.5, 0.5]}
    (tmp_path / HISTORY_FILE).write_text(to_sealed_json(said))
    with pytest.raises(UserError, match=r"the waits of 2 epochs, but the times of 1\)"):
        read_history(str(tmp_path))


def test_anomalies_that_are_none_are_refused(tmp_path):
    path = tmp_path / "Split-train" / "SchemaDiff.pb"
    path.parent.mkdir()
    path.write_bytes(b"\xff\xff")
    with pytest.raises(UserError, match=r"SchemaDiff.pb' is damaged \(.*; run again from"):
        read_anomalies(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "columns", "read"),
    [(MISLABELLED, COLUMNS, read_mislabelled), (OUTLIERS, OUTLIER_COLUMNS, read_outliers)],
)
def test_a_table_without_one_of_its_columns_is_refused(tmp_path, name, columns, read):
    row = [{"record_id": "0a" * 16, "times": 3.5}.get(each, "a") for each in columns]
    write_csv(str(tmp_path / name), columns, [row])
    assert len(read(str(tmp_path))) == 1
    for lost in columns:
        write_csv(str(tmp_path / name), ["x" if each == lost else each for each in columns], [row])
        with pytest.raises(UserError, match=rf"{name}' is damaged \(its {lost}: Field required"):
            read(str(tmp_path))


@pytest.mark.parametrize(
    ("declared", "value", "fits"),
    [
        ("DOUBLE", 1, True),
        ("DOUBLE", None, True),
        ("DOUBLE", b"\xff", False),
        ("INT", "text", False),
        ("TEXT", b"\xff", False),
        ("VARCHAR(255)", b"\xff", False),
        ("BLOB", b"\xff", True),
    ],
)
def test_metadata_of_other_types_would_abort_its_reader(tmp_path, declared, value, fits):
    path = tmp_path / "metadata.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE MLMDEnv (schema_version INTEGER)")
        database.execute(f"CREATE TABLE Own (value {declared})")
        database.execute("INSERT INTO Own VALUES (?)", [value])
    if fits:
        check_metadata(str(path), "")
        return
    with pytest.raises(UserError, match=f"value of its table Own must be {declared[:4]}"):
        check_metadata(str(path), "")


def test_a_run_whose_judgement_is_not_noted_is_listed(tmp_path):
    step = Step(1, "Evaluator", "made", 0, 0, {}, {}, {}, 1)
    runs = describe_runs(RunFolder(str(tmp_path)), [PastRun(1, "p", (step,))])
    assert runs[0]["score"] is None and runs[0]["blessed"] is False
    assert "not blessed" in "\n".join(history_lines(runs))
