"""A loss planted in the analysis fails the run, which names the stage."""

import collections
import types

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.transform import run
from image_pipeline.components.transform.finish import check_classes
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from tests.drawings import write_folder
from tests.ingest_runs import ingest
from tests.transform.analyze import VIEW, make_pipeline

pytestmark = pytest.mark.beam


def test_a_record_that_reading_drops_is_named(tmp_path, monkeypatch):
    real = run.read_view_batches

    def read_all_but_one(*arguments):
        for number, batch in enumerate(real(*arguments)):
            yield batch.slice(1) if number == 0 else batch

    monkeypatch.setattr(run, "read_view_batches", read_all_but_one)
    manifest = ingest(write_folder(tmp_path / "images"), tmp_path / "data", shards=1)
    records = manifest.splits["train"].records
    message = f"Stage ReadViews lost records: {records} in, {records - 1} out"
    with pytest.raises(UserError, match=message):
        run_analysis(
            str(tmp_path / "data"), str(tmp_path / "out"), VIEW, TransformOptions(), make_pipeline
        )


def _span(**analysed):
    return types.SimpleNamespace(analysed=collections.Counter(analysed))


def _rows(**counted):
    return [{"name": name, "records": count} for name, count in counted.items()]


def test_classes_that_add_up_over_all_spans_pass():
    check_classes(_rows(cat=5, dog=2), [_span(cat=3, dog=2), _span(cat=2)])


def test_labels_that_no_vocabulary_holds_are_not_missed():
    check_classes(_rows(cat=1), [_span(**{"cat": 1, "": 4, "two\nlines": 2})])


@pytest.mark.parametrize(
    ("counted", "message"),
    [
        ({"cat": 4, "dog": 2}, "Stage Analyze lost records of 1 classes, .* 'cat': 5 in, 4 out"),
        ({"cat": 5}, "Stage Analyze lost records of 1 classes, .* 'dog': 2 in, 0 out"),
        ({"cat": 5, "dog": 2, "cow": 1}, "'cow': 0 in, 1 out"),
    ],
)
def test_what_one_branch_of_the_analysis_loses_is_named(counted, message):
    with pytest.raises(UserError, match=message):
        check_classes(_rows(**counted), [_span(cat=5, dog=2)])
