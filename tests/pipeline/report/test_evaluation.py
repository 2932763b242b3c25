import numpy as np
import pytest

from image_pipeline.components.evaluation.facts import read_evaluation
from image_pipeline.report.evaluation import sort_matrix

pytestmark = pytest.mark.beam


def test_the_worst_records_are_found_in_the_data_set(run, run_data, figures):
    found = figures["evaluation"]
    assert found == read_evaluation(run.artifact("evaluation"))
    records, cats = found.records, run.manifest.books.classes["eval"]["cat"]
    assert records == run.manifest.splits["eval"].records
    # Both classes get one half, and the first of equal ones is predicted.
    assert figures["matrix"] == {"names": ["cat", "dog"], "rows": [[cats, 0], [records - cats, 0]]}
    assert found.answers.confusions == [[1, 0, records - cats]]
    eval_rows = np.flatnonzero(run_data.split == run_data.splits.index("eval"))
    assert {each["row"] for each in figures["worst"]} <= set(eval_rows.tolist())
    for each in figures["worst"]:
        assert each["loss"] == pytest.approx(np.log(2)) and each["probability"] == 0.5
        assert each["label"] == run_data.say_label(each["row"])
    assert [each.records for each in found.answers.calibration] == [records]


def test_the_matrix_is_sorted_by_name_and_only_shown_of_few_classes(run):
    found = read_evaluation(run.artifact("evaluation"))

    def change(names, matrix):
        answers = found.answers.model_copy(update={"names": names, "matrix": matrix})
        return found.model_copy(update={"answers": answers})

    few = sort_matrix(change(["dog", "cat"], [[0, 1], [2, 3]]))
    assert few == {"names": ["cat", "dog"], "rows": [[3, 2], [1, 0]]}
    assert sort_matrix(change([f"{n:02d}" for n in range(26)], [[0] * 26] * 26)) is None
    assert sort_matrix(change(["a"], None)) is None
    assert sort_matrix(found.model_copy(update={"answers": None})) is None


def test_records_are_found_by_their_ids(run_data):
    ids = [each.tobytes().hex() for each in run_data.index.record_id]
    assert run_data.find_ids([ids[3], ids[1], "0" * 32]) == {ids[3]: 3, ids[1]: 1}
    assert run_data.find_ids([]) == {}
