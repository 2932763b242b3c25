import csv
import importlib
import json
import math
import re

import keras
import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
from apache_beam.options.pipeline_options import PipelineOptions

from image_pipeline.components import progress
from image_pipeline.components.dataset.record import Column
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.evaluation import counting
from image_pipeline.components.evaluation.answers import AnswerTable, collect, join_tables
from image_pipeline.components.evaluation.counting import (
    check_finite,
    count_records,
    custom_extractors,
    describe_record,
    has_class,
)
from image_pipeline.components.evaluation.evaluation import (
    BASELINE,
    CANDIDATE,
    evaluation_config,
    read_measured,
    read_metrics,
)
from image_pipeline.components.evaluation.facts import (
    COLUMNS,
    FACTS,
    OUTLIER_COLUMNS,
    Bound,
    Failure,
)
from image_pipeline.components.evaluation.metrics import METRICS, Estimate
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.labels.kinds import BOXES, MASKS
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.rules import check
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.rules import SLICES, find_types
from image_pipeline.components.tasks.signatures import EXAMPLES, SERVE_EXAMPLES, TRANSFORM_FEATURES
from image_pipeline.components.training import serving
from image_pipeline.components.views.options import ViewOptions
from tests import graphs, shards
from tests.pipeline.report.conftest import data_dir, images_dir, run, run_dir  # noqa: F401
from tests.tiers import wide
from tests.training.models import build_linear_model

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def export_dir(tmp_path_factory):
    """A model that takes every image for a cat."""
    keras.utils.set_random_seed(0)
    model = build_linear_model((8, 8, 3), 2, TrainingOptions())
    model.layers[-1].set_weights([tf.zeros([192, 2]), tf.constant([1.0, 0.0])])
    folder = str(tmp_path_factory.mktemp("export") / "model")
    view = ViewOptions(height_px=8, width_px=8)
    serving.export_model(model, graphs.shared_graph_dir(), view, ["cat", "dog"], folder)
    return folder


def analyse(export_dir, folder, **options):
    """Runs TFMA over 3 cats, 1 dog and 1 record of a class that the graph does not know."""
    pattern = shards.write_shards(
        folder / "data", shards.make_examples(5, ["cat", "dog", "cat", "zebra", "cat"])
    )
    config = evaluation_config(EvaluationOptions(**options))
    model = tfma.default_eval_shared_model(export_dir, eval_config=config)
    arguments = {"eval_shared_model": model, "eval_config": config}
    result = tfma.run_model_analysis(
        **arguments,
        extractors=custom_extractors(tensor_adapter_config=None, **arguments),
        data_location=pattern,
        output_path=str(folder / "out"),
        pipeline_options=PipelineOptions(runner="FnApiRunner", direct_running_mode="in_memory"),
    )
    metrics = {slice_key: values[""][""] for slice_key, values in result.slicing_metrics}
    return metrics, tfma.load_validation_result(str(folder / "out"))


def test_accuracy_is_measured_and_each_record_s_answer_kept_while_all_are_counted(
    export_dir, tmp_path
):
    path = str(tmp_path / "kept" / "part")
    table = AnswerTable("classification", (("image/height", "int64"),), path)
    progress.begin("records", 5)
    with collect(table):
        metrics, validation = analyse(export_dir, tmp_path, min_accuracy=0.74)
    assert progress.look() == progress.Progress("records", 5, done=5)
    progress.end()
    measured = {
        slice_key: (
            pytest.approx(values["sparse_categorical_accuracy"]["doubleValue"]),
            values["example_count"]["doubleValue"],
        )
        for slice_key, values in metrics.items()
    }
    assert measured == {
        (): (0.75, 4.0),  # without the zebra, of which the graph does not know
        (("image/class/text", "cat"),): (1.0, 3.0),
        (("image/class/text", "dog"),): (0.0, 1.0),
    }
    assert validation.validation_ok  # although no dog was recognised
    parts = [pq.read_table(path) for path in (tmp_path / "kept").iterdir()]
    rows = join_tables(parts).sort_by("filename").to_pylist()
    assert [row["filename"] for row in rows] == ["0", "1", "2", "4"]  # 3 is the zebra
    assert [row["label"] for row in rows] == [0, 1, 0, 0]
    likely = 1 / (1 + math.exp(-1))
    for row in rows:
        assert row["prediction"] == 0 and row["probability"] == pytest.approx(likely)
        assert row["baseline_right"] is None and row["slice:image/height"] == 12
    assert rows[1]["label_probability"] == pytest.approx(1 - likely)


def test_answers_are_kept_only_where_they_are_asked_for(export_dir):
    config = evaluation_config(EvaluationOptions())
    model = tfma.default_eval_shared_model(export_dir, eval_config=config)
    arguments = {"eval_shared_model": model, "eval_config": config, "tensor_adapter_config": None}
    usual = [each.stage_name for each in custom_extractors(**arguments)]
    with collect(AnswerTable("classification", path_prefix="part")):
        # TFX, too, loads the module again whenever it makes extractors.
        made = importlib.reload(counting).custom_extractors(**arguments)
        asked = [each.stage_name for each in made]
    at = usual.index("CheckFinite") + 1
    assert asked == [*usual[:at], "KeepAnswers", *usual[at:]] and "KeepAnswers" not in usual


def test_of_two_models_the_earlier_ones_answer_is_compared_with_its_own_label():
    extracts = {
        "labels": {CANDIDATE: np.array([1]), BASELINE: np.array([0])},
        "predictions": {CANDIDATE: np.array([0.25, 0.75]), BASELINE: np.array([0.5, 0.25, 0.25])},
        "features": {"image/filename": np.array([b"a.png"]), "image/source_id": np.array([b"0"])},
    }
    row = describe_record(extracts, AnswerTable("classification"))
    assert (row["label"], row["prediction"], row["baseline_right"]) == (1, 1, True)
    extracts["labels"][BASELINE] = np.array([-1])  # a class that it does not know
    assert not describe_record(extracts, AnswerTable("classification"))["baseline_right"]


def test_a_model_below_the_minimum_is_not_good_enough(export_dir, tmp_path):
    _, validation = analyse(export_dir, tmp_path, min_accuracy=0.76)
    assert not validation.validation_ok
    failed = [
        list(found.slice_key.single_slice_keys) for found in validation.metric_validations_per_slice
    ]
    assert failed == [[]]  # the slice of all records, and no class


@pytest.mark.wide
def test_confidence_intervals_are_computed_when_asked_for(export_dir, tmp_path):
    metrics, _ = analyse(export_dir, tmp_path, min_accuracy=0.5, confidence_intervals=True)
    assert "boundedValue" in metrics[()]["sparse_categorical_accuracy"]


@pytest.mark.parametrize("min_improvement", [None, 0.0])
def test_a_model_that_gives_no_numbers_is_refused_by_name_of_a_record(tmp_path, min_improvement):
    """Its argmax would be the first class: three of four would be right."""
    pattern = shards.write_shards(tmp_path / "data", shards.make_examples(4, ["cat", "dog"]))
    folder = _export_nan(tmp_path / "model")
    config = evaluation_config(EvaluationOptions(min_improvement=min_improvement))
    models = [
        tfma.default_eval_shared_model(folder, eval_config=config, model_name=spec.name)
        for spec in config.model_specs
    ]
    arguments = {"eval_shared_model": models, "eval_config": config}
    with pytest.raises(Exception, match="finite probabilities") as raised:
        tfma.run_model_analysis(
            **arguments,
            extractors=custom_extractors(tensor_adapter_config=None, **arguments),
            data_location=pattern,
            output_path=str(tmp_path / "out"),
            pipeline_options=PipelineOptions(runner="FnApiRunner", direct_running_mode="in_memory"),
        )
    found = find_user_error(raised.value)
    assert re.match(r"the model must give finite .* gives nan for the eval split's \d:", str(found))


def _export_nan(folder):
    """A model with a NaN that no check before its export has seen."""
    model = build_linear_model((8, 8, 3), 2, TrainingOptions())
    view = ViewOptions(height_px=8, width_px=8)
    classifier = serving.ServedModel(
        model, TransformGraph(graphs.shared_graph_dir()), view, ["cat", "dog"]
    )
    model.layers[-1].set_weights([tf.zeros([192, 2]), tf.constant([float("nan"), 0.0])])
    signatures = {
        SERVE_EXAMPLES: classifier.serve_examples,
        TRANSFORM_FEATURES: classifier.transform_features,
    }
    made = {
        name: serving._batch_signature(function, EXAMPLES) for name, function in signatures.items()
    }
    tf.saved_model.save(classifier, str(folder), signatures=made)
    return str(folder)


def test_of_two_models_the_judged_ones_labels_and_figures_count():
    labels = {CANDIDATE: np.array([1]), BASELINE: np.array([-1])}
    assert has_class({"labels": labels}) and not has_class({"labels": np.array([-1])})
    extracts = {
        "features": {"image/filename": np.array([b"a.png"])},
        "predictions": {CANDIDATE: np.array([0.5, 0.5]), BASELINE: np.array([np.nan, 0.5])},
    }
    assert check_finite(extracts) is extracts


def test_a_record_alone_is_counted_too():
    progress.begin("records", 5)
    extracts = {"input": b"a record"}
    assert count_records(extracts) is extracts
    assert progress.look() == progress.Progress("records", 5, done=1)
    progress.end()


@pytest.mark.parametrize(
    ("min_improvement", "is_enough"),
    [wide(None, True), wide(-0.01, True), wide(0.0, True), (0.01, False)],
)
def test_a_model_must_be_better_than_the_baseline_by_so_much(
    export_dir, tmp_path, min_improvement, is_enough
):
    pattern = shards.write_shards(tmp_path / "data", shards.make_examples(4, ["cat", "dog"]))
    config = evaluation_config(EvaluationOptions(min_improvement=min_improvement))
    models = [  # The same model twice: the difference is 0.
        tfma.default_eval_shared_model(export_dir, eval_config=config, model_name=spec.name)
        for spec in config.model_specs
    ]
    assert len(models) == (1 if min_improvement is None else 2)
    tfma.run_model_analysis(
        eval_shared_model=models,
        eval_config=config,
        data_location=pattern,
        output_path=str(tmp_path / "out"),
        pipeline_options=PipelineOptions(runner="FnApiRunner", direct_running_mode="in_memory"),
    )
    assert tfma.load_validation_result(str(tmp_path / "out")).validation_ok is is_enough


def test_slices_are_columns_of_one_value():
    further = (Column("camera", "bytes"), Column("words", "bytes", is_list=True))
    types = find_types(further)
    assert (types["camera"], types["image/height"]) == ("bytes", "int64")
    for name in ("words", "lens"):
        with pytest.raises(UserError, match=f"names '{name}', not a column .*known: .*camera"):
            check(SLICES, evaluation=EvaluationOptions(slices=(name,)), columns=further)


def test_slices_that_could_not_be_made_are_refused_beforehand():
    sliced = EvaluationOptions(slices=("image/format",))
    for labels in (MASKS, BOXES):
        check(SLICES, evaluation=EvaluationOptions(), labels=labels, columns=())
        message = f"slices works .*, but the labels of this run are {labels.name}, which"
        with pytest.raises(UserError, match=message):
            check(SLICES, evaluation=sliced, labels=labels, columns=())


def test_figures_answers_and_doubts_are_written(run):  # noqa: F811
    folder = run.artifact("evaluation")
    with open(f"{folder}/{FACTS}") as file:
        facts = json.load(file)
    assert facts["version"] == 1 and facts["records"] == run.manifest.splits["eval"].records
    # A model that gives each class one half sees nothing that tells them apart.
    assert facts["mislabelled"]["judged"] == facts["mislabelled"]["of"] == 23
    with open(f"{folder}/mislabelled.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == facts["mislabelled"]["suspected"]
    assert all(tuple(row) == COLUMNS and row["label"] != row["likelier"] for row in rows)
    # Nor is any of them unlike the others.
    assert facts["outliers"] == {"judged": 23, "of": 23, "found": 0}
    with open(f"{folder}/outliers.csv") as file:
        assert tuple(csv.DictReader(file).fieldnames) == OUTLIER_COLUMNS


def test_bounds_stay_where_the_figure_can_be_and_no_number_is_left_out():
    def bounded(value, low, high):
        return {"boundedValue": {"value": value, "lowerBound": low, "upperBound": high}}

    found = read_metrics(
        {
            "sparse_categorical_accuracy": bounded(0.98, 0.95, 1.01),
            "sparse_categorical_accuracy_diff": bounded(0.02, -0.03, 0.07),
            "example_count": {"doubleValue": 8.0},
            "loss": {"doubleValue": "NaN"},
            "other": bounded(0.5, "NaN", "NaN"),
        }
    )
    assert found == {
        "accuracy": Estimate(0.98, 0.95, 1.0),
        "accuracy gained": Estimate(0.02, -0.03, 0.07),
        "records": Estimate(8.0),
        "other": Estimate(0.5),
    }


@pytest.mark.wide
@pytest.mark.parametrize("flag", [False, True])
def test_the_evaluators_files_are_read_with_and_without_intervals(export_dir, tmp_path, flag):
    analyse(export_dir, tmp_path, confidence_intervals=flag, min_accuracy=0.8)
    found = read_measured(str(tmp_path / "out"))
    assert found.metric is METRICS["sparse_categorical_accuracy"]
    accuracy = found.overall["accuracy"]
    assert accuracy.value == pytest.approx(0.75) and found.overall["records"].value == 4.0
    assert {name: own["accuracy"].value for name, own in found.classes.items()} == {
        "cat": 1.0,
        "dog": 0.0,
    }
    assert found.bound == Bound(option="evaluation.min_accuracy", threshold=0.8)
    missed = {"option": "evaluation.min_accuracy", "threshold": 0.8, "measure": "accuracy"}
    assert found.failures == [Failure(**missed, measured=accuracy.value)]
    assert (accuracy.interval is not None) is flag
    if flag:
        assert 0 <= accuracy.low <= 0.75 <= accuracy.high <= 1
