import numpy as np
import pytest

from image_pipeline.components.evaluation.intervals import estimate_f1, estimate_share
from image_pipeline.components.evaluation.tag_metrics import (
    describe_answers,
    describe_slice,
    find_constant,
)
from tests.evaluation.answer_tables import make_table

pytestmark = pytest.mark.unit

NAMES = ["sea", "sky", "emu"]
TRUE = [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
ANSWERS = [[0.9, 0.2, 0.1], [0.6, 0.7, 0.1], [0.1, 0.1, 0.1]]


def test_tags_have_precision_recall_and_f1():
    found = describe_answers(make_table("tagging", TRUE, ANSWERS), NAMES)
    # Three true ones, three answered, two of them right.
    overall = found["metrics"]
    assert {name: overall[name].value for name in ("precision", "recall", "F1")} == {
        name: pytest.approx(2 / 3) for name in ("precision", "recall", "F1")
    }
    assert overall["mean F1"].value == pytest.approx(2 / 3)  # of sea and sky; there is no emu
    emu, sea, sky = found["classes"]
    assert (sea["records"], sea["precision"].value, sea["recall"].value) == (1, 0.5, 1)
    # Of one tag each image is a trial of its own; few of them say little.
    assert sea["recall"] == estimate_share(1, 1) and sea["precision"] == estimate_share(1, 2)
    assert sea["F1"] == estimate_f1(1, 1) and sky["F1"] == estimate_f1(1, 1)
    assert (sky["records"], sky["precision"].value, sky["recall"].value) == (2, 1, 0.5)
    assert emu["records"] == 0 and np.isnan(emu["F1"].value) and emu["F1"].interval is None
    worst = found["answers"]["worst"][0]
    assert worst["filename"] == "0.png" and worst["missed"] == {"sky": pytest.approx(0.2)}
    assert worst["wrong"] == {} and found["answers"]["right"] == 1
    assert found["answers"]["worst"][1]["wrong"] == {"sea": pytest.approx(0.6)}


def test_the_best_constant_answer_is_found():
    # Of four images, three have sky, one sea: sky alone gives 2·3 / (4 + 4).
    assert find_constant(np.array([1, 3, 0]), 4, NAMES) == {"answer": "sky", "value": 0.75}


def test_a_slice_has_its_f1():
    table = make_table("tagging", TRUE[:1], ANSWERS[:1])
    assert describe_slice(table)["figure"].value == pytest.approx(2 / 3)
    nothing = make_table("tagging", TRUE[2:], ANSWERS[2:])
    assert np.isnan(describe_slice(nothing)["figure"].value)


def test_an_earlier_model_s_f1_is_compared_on_the_same_images():
    assert (
        "F1 gained" not in describe_answers(make_table("tagging", TRUE, ANSWERS), NAMES)["metrics"]
    )
    # It answers the sky everywhere: two right ones of three, 2·2 / (3 + 3), and now the same.
    table = make_table("tagging", TRUE, ANSWERS, [[0.1, 0.9, 0.1]] * 3)
    assert describe_answers(table, NAMES)["metrics"]["F1 gained"].value == pytest.approx(0)
    # Two right ones of two, of three true ones: 2·2 / (2 + 3).
    better = make_table("tagging", TRUE, ANSWERS, [[0.9, 0.9, 0.1], [0.1] * 3, [0.1] * 3])
    gained = describe_answers(better, NAMES)["metrics"]["F1 gained"]
    assert gained.value == pytest.approx(2 / 3 - 4 / 5)
    assert gained.interval == pytest.approx((-1 / 3, 2 / 3))
