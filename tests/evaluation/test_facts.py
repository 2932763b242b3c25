"""What an evaluation found, put together, written and read."""

import csv
import dataclasses
import json
import math
import re
import sys

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.describe_model import (
    describe_model,
    describe_values,
    describe_values_of_slice,
    list_slices,
)
from image_pipeline.components.evaluation.evaluation import Measured, evaluation_config
from image_pipeline.components.evaluation.facts import (
    FACTS,
    Bound,
    Constant,
    Evaluation,
    Mistake,
    read_csv,
    read_evaluation,
    write_csv,
    write_evaluation,
)
from image_pipeline.components.evaluation.findings import join_facts
from image_pipeline.components.evaluation.intervals import wilson_interval
from image_pipeline.components.evaluation.metrics import IN_WORDS, Estimate
from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.components.tasks.image_tasks import REGRESSION
from image_pipeline.components.tasks.options import EvaluationOptions
from tests.evaluation.answer_tables import make_table

pytestmark = pytest.mark.unit

OWN = describe_model(
    "classification",
    make_table(
        *("classification", [0, 0, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]]),
        slices=(("camera", "bytes"),),
        camera=[[b"x"], [b"x"], [b"x"], [b"y"]],
    ),
    ["cat", "dog"],
    ["camera"],
)


THREE_OF_FOUR, ONE_OF_TWO = Estimate(0.75), Estimate(0.5)


def measured(accuracy=THREE_OF_FOUR, dog=ONE_OF_TWO, **further):
    return Measured(
        metric=IN_WORDS["accuracy"],
        bound=Bound(option="evaluation.min_accuracy", threshold=0.6),
        failures=[],
        overall={"accuracy": accuracy, "records": Estimate(4.0), **further},
        classes={"cat": {"accuracy": Estimate(1.0)}, "dog": {"accuracy": dog}},
        mistakes={},
    )


def join(measured, own=OWN):
    counts = {row["name"]: row["records"] for row in own["classes"]}
    return join_facts("classification", measured, own, counts, True)


def test_what_tfma_measured_gets_our_intervals_and_the_weakest_class_is_first():
    found = join(measured())
    assert found.score == found.metrics["accuracy"] == Estimate(0.75, *wilson_interval(3, 4))
    assert set(found.metrics) == {"accuracy", "macro F1", "loss", "calibration error"}
    assert (found.measure, found.records, found.method) == ("accuracy", 4, "Wilson")
    dog, cat = found.classes
    assert (dog.name, dog.records, dog.figure) == ("dog", 2, Estimate(0.5, *wilson_interval(1, 2)))
    assert dog.mistake == Mistake(taken_for="cat", share=0.5) and cat.mistake is None
    assert cat.recall == cat.figure and cat.precision == Estimate(2 / 3, *wilson_interval(2, 3))
    assert found.constant == Constant(answer="cat", value=0.5) and found.compared is None
    assert [(each.value, each.figure.value) for each in found.slices["camera"]] == [
        ("x", pytest.approx(2 / 3)),
        ("y", 1.0),
    ]
    assert found.answers.matrix == [[2, 0], [1, 1]]


def test_tfma_s_intervals_stand_and_the_lowest_bound_is_first():
    found = join(measured(Estimate(0.75, 0.6, 0.9), Estimate(0.5, 0.45, 0.55)))
    assert found.method == "jackknife" and found.score == Estimate(0.75, 0.6, 0.9)
    assert [each.name for each in found.classes] == ["dog", "cat"]
    lowest = measured()
    lowest.classes["cat"]["accuracy"] = Estimate(1.0, 0.1, 1.0)
    assert [each.name for each in join(lowest).classes] == ["cat", "dog"]
    assert join(lowest).classes[0].figure == Estimate(1.0, 0.1, 1.0)


def test_masks_have_pixels_and_no_interval_unless_tfma_estimates_one():
    pixels = Measured(
        metric=IN_WORDS["mean IoU"],
        bound=None,
        failures=[],
        overall={"mean IoU": Estimate(0.5), "records": Estimate(8.0)},
        classes={"sky": {"IoU": Estimate(0.75)}, "pole": {"IoU": Estimate(0.25)}},
        mistakes={"pole": Mistake(taken_for="sky", share=0.6)},
    )
    own = {"metrics": {}, "classes": []}
    found = join_facts("segmentation", pixels, own, {"sky": 900, "pole": 100}, True)
    assert (found.score, found.method, found.answers) == (Estimate(0.5), None, None)
    assert [(row.name, row.records, row.figure) for row in found.classes] == [
        ("pole", 100, Estimate(0.25)),
        ("sky", 900, Estimate(0.75)),
    ]
    assert found.classes[0].mistake == Mistake(taken_for="sky", share=0.6)


def test_a_class_without_a_record_in_eval_keeps_its_row_behind_the_others():
    table = make_table("classification", [0, 0], [[0.9, 0.05, 0.05], [0.2, 0.7, 0.1]])
    own = describe_model("classification", table, ["cat", "dog", "owl"])
    of_cats = measured(Estimate(0.5))
    of_cats = dataclasses.replace(of_cats, classes={"cat": {"accuracy": Estimate(0.5)}})
    found = join(of_cats, own)
    rows = [(row.name, row.records, row.figure.value, row.precision.value) for row in found.classes]
    assert rows[:2] == [("cat", 2, 0.5, 1.0), ("dog", 0, None, 0.0)]
    assert rows[2][:3] == ("owl", 0, None) and math.isnan(rows[2][3])


def test_an_evaluation_without_a_record_of_a_known_class_has_no_score():
    nothing = Measured(IN_WORDS["accuracy"], None, [], {}, {}, {})
    found = join(
        nothing, describe_model("classification", make_table("classification", [], []), [])
    )
    assert (found.records, found.score, found.classes) == (0, Estimate(None), [])


def test_what_an_earlier_model_gained_has_an_interval_where_tfma_compared():
    compared = {"gained": Estimate(0.25, -0.5, 0.75), "only_new": 1, "only_earlier": 0}
    own = OWN | {"compared": compared | {"p_value": 1.0}}
    assert "accuracy gained" not in join(measured(), own).metrics
    found = join(measured(**{"accuracy gained": Estimate(0.25)}), own)
    assert found.metrics["accuracy gained"] == compared["gained"] == found.compared.gained


def test_facts_are_read_as_they_were_written(tmp_path):
    found = join(measured())
    write_evaluation(str(tmp_path), found)
    assert read_evaluation(str(tmp_path)) == found


def test_facts_that_are_missing_or_of_another_version_are_asked_for(tmp_path):
    with pytest.raises(UserError, match=r"must have facts\.json, which earlier versions did not"):
        read_evaluation(str(tmp_path))
    (tmp_path / FACTS).write_text(to_sealed_json({"version": 2}))
    with pytest.raises(UserError, match=r"must be of version 1, got 2, .* from the Evaluator on"):
        read_evaluation(str(tmp_path))


def change(path, value):
    facts = json.loads(json.dumps(join(measured()).model_dump()))
    *above, last = path
    target = facts
    for key in above:
        target = target[key]
    target[last] = value
    return facts


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("metrics", "accuracy"), {"value": 0.5, "low": 0.4}, "has two ends"),
        (("metrics", "accuracy"), {}, "metrics.accuracy.value: Field required"),
        (("metrics", "accuracy", "value"), "0.5", "value: Input should be a valid number"),
        (("measure",), "fun", "known are accuracy"),
        (("classes",), [{"name": "a", "records": 2}], "classes.0.figure: Field required"),
        (("answers", "matrix"), [[1, 1], [0, "0"]], "matrix.1.1: Input should be a valid integer"),
        (("answers", "matrix"), [[1, 1], [0]], "its matrix is not one of 2 classes"),
        (("answers", "confusions"), [[0, 1, "1"]], "confusions.0.2: Input should be a valid int"),
        (("answers", "confusions"), [[0, 1]], "confusions.0: List should have at least 3 items"),
        (("answers", "confusions"), [[0, 2, 1]], "a confusion is of a class that has no name"),
        (("answers", "worst", 0, "record_id"), "0" * 31, "worst.0.record_id: String should match"),
        (("slices",), {"year": [{"value": "1", "records": 1}]}, "slices.year.0.figure: Field req"),
        (("outliers",), {"judged": [], "of": 1, "found": 0}, "outliers.judged: Input should be"),
        (("bound",), {"option": "x"}, "bound.threshold: Field required"),
        (("task",), None, "task: Input should be a valid string"),
        (("other",), 1, "other: Extra inputs are not permitted"),
    ],
)
def test_facts_that_are_sealed_but_of_another_form_are_refused(tmp_path, path, value, says):
    (tmp_path / FACTS).write_text(to_sealed_json(change(path, value)))
    with pytest.raises(UserError, match=rf"facts.json' is damaged \(.*{re.escape(says)}.*again"):
        read_evaluation(str(tmp_path))


def test_an_evaluation_is_its_own_json():
    found = join(measured())
    assert Evaluation.model_validate(json.loads(json.dumps(found.model_dump()))) == found


def write_cells(path, *cells):
    write_csv(str(path), ["name"], [[cell] for cell in cells])
    with open(path, newline="") as file:
        return [cell for (cell,) in list(csv.reader(file))[1:]]


def test_what_a_spreadsheet_would_compute_is_text_there(tmp_path):
    formulas = ["=cmd|' /C calc'!A0.jpg", "+1+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", "'=1", "''=1"]
    written = write_cells(tmp_path / "table.csv", *formulas)
    assert written == [f"'{each}" for each in formulas]
    assert [
        row["name"] for row in read_csv(str(tmp_path / "table.csv"), dict[str, str])
    ] == formulas


def test_other_cells_are_as_they_are(tmp_path):
    cells = ["cat/a=b.jpg", "-1", "+2.5", "it's", "'", "''x", "a\nb", 'q"q', ""]
    assert write_cells(tmp_path / "table.csv", *cells, -1.5) == [*cells, "-1.5"]


@hypothesis.given(st.lists(st.text("'=+-@\t\r\n1a,\"é", max_size=6), min_size=1))
def test_what_is_written_is_read(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    written = write_cells(path, *cells)
    assert [row["name"] for row in read_csv(str(path), dict[str, str])] == cells
    assert not any(cell[:1] in "=@\t\r" for cell in written if cell)


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
