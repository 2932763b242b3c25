import sys

import pytest

from image_pipeline.components.evaluation.evaluation import evaluation_config
from image_pipeline.components.evaluation.value_figures import describe_answers, describe_slice
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.regression import REGRESSION
from tests.evaluation.answer_tables import make_table

pytestmark = pytest.mark.unit


def test_values_have_errors_and_the_mean_to_compare_with():
    table = make_table("regression", [1.0, 2.0, 3.0], [[1.5], [2.0], [1.0]])
    found = describe_answers(table, [])
    assert found["metrics"]["mean squared error"].value == pytest.approx(4.25 / 3)
    assert found["metrics"]["mean absolute error"].value == pytest.approx(2.5 / 3)
    assert "mean squared error gained" not in found["metrics"]
    assert found["constant"] == {"answer": "2", "value": pytest.approx(2 / 3)}
    assert [each["filename"] for each in found["answers"]["worst"]] == ["2.png", "0.png", "1.png"]
    assert describe_slice(table)["figure"] == found["metrics"]["mean squared error"]


def test_an_earlier_model_s_errors_are_compared_on_the_same_records():
    # The squared errors change by 0.25 - 1, 0 - 0 and 4 - 1.
    table = make_table("regression", [1.0, 2.0, 3.0], [[1.5], [2.0], [1.0]], [[0.0], [2.0], [4.0]])
    gained = describe_answers(table, [])["metrics"]["mean squared error gained"]
    assert gained.value == pytest.approx(0.75)
    assert gained.interval == pytest.approx((-0.75, 3))


def test_a_first_model_that_is_only_to_be_compared_has_a_bound_that_all_keep():
    """TFMA blesses nothing without one, once TFX has taken away the comparison."""
    for options, bound in (({}, 0), ({"min_improvement": -1}, sys.float_info.max)):
        config = evaluation_config(EvaluationOptions(**options), REGRESSION)
        judged = config.metrics_specs[0].metrics[0].per_slice_thresholds[0].threshold
        assert judged.value_threshold.upper_bound.value == bound
