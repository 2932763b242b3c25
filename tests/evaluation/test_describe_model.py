import sys

import numpy as np
import pytest

from image_pipeline.components.evaluation.describe_model import (
    describe_model,
    describe_values,
    describe_values_of_slice,
    list_slices,
)
from image_pipeline.components.evaluation.evaluation import evaluation_config
from image_pipeline.components.tasks.image_tasks import REGRESSION
from image_pipeline.components.tasks.options import EvaluationOptions
from tests.evaluation.answer_tables import make_table

pytestmark = pytest.mark.unit


def divide(dtype, values):
    table = make_table(
        "classification", [0] * len(values), [[1.0, 0.0]] * len(values),
        slices=(("column", dtype),), column=values,
    )  # fmt: skip
    rows = list_slices(table, "column", lambda part: {"names": part["filename"].to_pylist()})
    assert sum(row["records"] for row in rows) == len(values)
    return [(row["value"], [int(name[:-4]) for name in row["names"]]) for row in rows]


def test_names_are_slices_those_of_most_records_first():
    values = [[b"b"], [b"a"], [b"b"], []]
    assert divide("bytes", values) == [("b", [0, 2]), ("a", [1]), ("(none)", [3])]


def test_of_many_names_the_others_are_joined():
    found = divide("bytes", [[f"{number:02d}".encode()] for number in range(23)])
    assert found[0] == ("00", [0]) and found[-1] == ("(3 others)", [20, 21, 22])
    assert len(found) == 21


def test_few_whole_numbers_are_told_apart_and_fractions_are_put_into_bins():
    assert divide("int64", [[7], [5], [7]]) == [("7", [0, 2]), ("5", [1])]
    values = [[value] for value in (0.5, 8.25, 2.0, 1.5, np.nan, 4.0, 4.0, 4.0, 9.0)]
    assert divide("float32", values) == [
        *(("0.5 to 1.5", [0, 3]), ("2 to 4", [2, 5, 6, 7]), ("8.25 to 9", [1, 8])),
        ("(none)", [4]),
    ]


def test_a_bin_of_one_value_has_its_name_and_great_numbers_are_short():
    assert divide("float32", [[2.5], [2.0**100], [2.0**100]]) == [
        ("2.5", [0]),
        ("1.268e+30", [1, 2]),
    ]


def test_many_whole_numbers_are_put_into_four_bins():
    found = divide("int64", [[number] for number in range(1000, 1100)])
    assert [name for name, _ in found][:2] == ["1,000 to 1,024", "1,025 to 1,049"]
    assert [len(rows) for _, rows in found] == [25] * 4


def test_a_model_s_figures_have_the_slices_asked_for():
    table = make_table(
        "classification", [0, 1, 1], [[1.0, 0.0]] * 3, slices=(("camera", "bytes"),),
        camera=[[b"x"], [b"x"], [b"y"]],
    )  # fmt: skip
    figures = describe_model("classification", table, ["a", "b"], ["camera"])
    x, y = figures["slices"]["camera"]
    assert (x["value"], x["records"], x["figure"].value, x["constant"]) == ("x", 2, 0.5, 0.5)
    assert (y["value"], y["records"], y["figure"].value, y["constant"]) == ("y", 1, 0.0, 1.0)
    nothing = describe_model("classification", table.slice(0, 0), ["a", "b"], ["camera"])
    assert nothing["metrics"] == {} and nothing["slices"] == {"camera": []}


def test_values_have_errors_and_the_mean_to_compare_with():
    table = make_table("regression", [1.0, 2.0, 3.0], [[1.5], [2.0], [1.0]])
    found = describe_values(table, [])
    assert found["metrics"]["mean squared error"].value == pytest.approx(4.25 / 3)
    assert found["metrics"]["mean absolute error"].value == pytest.approx(2.5 / 3)
    assert "mean squared error gained" not in found["metrics"]
    assert found["constant"] == {"answer": "2", "value": pytest.approx(2 / 3)}
    assert [each["filename"] for each in found["answers"]["worst"]] == ["2.png", "0.png", "1.png"]
    assert describe_values_of_slice(table)["figure"] == found["metrics"]["mean squared error"]


def test_an_earlier_model_s_errors_are_compared_on_the_same_records():
    # The squared errors change by 0.25 - 1, 0 - 0 and 4 - 1.
    table = make_table("regression", [1.0, 2.0, 3.0], [[1.5], [2.0], [1.0]], [[0.0], [2.0], [4.0]])
    gained = describe_values(table, [])["metrics"]["mean squared error gained"]
    assert gained.value == pytest.approx(0.75)
    assert gained.interval == pytest.approx((-0.75, 3))


def test_a_model_that_nothing_is_asked_of_has_a_bound_that_all_keep():
    """TFMA blesses nothing without one, once TFX has taken away the comparison."""
    for options in ({}, {"min_improvement": -1}):
        config = evaluation_config(EvaluationOptions(**options), REGRESSION)
        judged = config.metrics_specs[0].metrics[0].per_slice_thresholds[0].threshold
        assert judged.value_threshold.upper_bound.value == sys.float_info.max
