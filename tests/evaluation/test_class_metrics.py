import numpy as np
import pytest

from image_pipeline.components.evaluation.class_metrics import (
    bin_probabilities,
    calibration_error,
    describe_answers,
    describe_bins,
    describe_slice,
    find_chance,
)
from image_pipeline.components.evaluation.facts import Mistake
from image_pipeline.components.evaluation.intervals import (
    estimate_f1,
    estimate_share,
    wilson_interval,
)
from image_pipeline.components.evaluation.metrics import Estimate
from image_pipeline.components.evaluation.tag_metrics import (
    describe_answers as describe_tags,
)
from image_pipeline.components.evaluation.tag_metrics import (
    describe_slice as describe_tags_of_slice,
)
from image_pipeline.components.evaluation.tag_metrics import (
    find_constant,
)
from image_pipeline.components.evaluation.unusual import (
    cross_validate,
    find_judged,
    find_likelier,
    find_suspects,
)
from tests.evaluation.answer_tables import make_table

pytestmark = pytest.mark.unit

NAMES = ["dog", "cat", "emu"]
# Dogs: three right, one for a cat. Cats: one right, two for dogs. No emu, no one answers it.
LABELS = [0, 0, 0, 0, 1, 1, 1]
ANSWERS = [[0.8, 0.1, 0.1]] * 3 + [[0.25, 0.5, 0.25], [0.1, 0.8, 0.1]] + [[0.75, 0.25, 0]] * 2


@pytest.fixture(scope="module")
def figures():
    return describe_answers(make_table("classification", LABELS, ANSWERS), NAMES)


def test_confusions_are_counted(figures):
    assert figures["answers"]["matrix"] == [[3, 1, 0], [2, 1, 0], [0, 0, 0]]
    assert figures["answers"]["confusions"] == [[1, 0, 2], [0, 1, 1]]
    assert figures["constant"] == {"answer": "dog", "value": 4 / 7}


def test_figures_are_those_of_the_counts(figures):
    overall = figures["metrics"]
    assert overall["accuracy"] == estimate_share(4, 7)
    assert overall["macro F1"].value == pytest.approx((6 / 9 + 2 / 5) / 2)
    losses = [*[np.log(0.8)] * 4, np.log(0.25), *[np.log(0.25)] * 2]
    assert overall["loss"].value == pytest.approx(-np.mean(losses))
    # Four of 0.8 are right, and the other three are wrong.
    assert overall["calibration error"].value == pytest.approx((4 * 0.2 + 0.5 + 2 * 0.75) / 7)
    for estimate in overall.values():
        assert estimate.low <= estimate.value <= estimate.high


def test_each_class_has_precision_and_recall(figures):
    cat, dog, owl = figures["classes"]
    assert (owl["records"], owl["recall"].interval) == (0, (0.0, 1.0))
    assert (cat["name"], cat["records"], dog["name"], dog["records"]) == ("cat", 3, "dog", 4)
    assert cat["precision"] == estimate_share(1, 2) and cat["recall"] == estimate_share(1, 3)
    assert dog["precision"] == estimate_share(3, 5) and dog["recall"] == estimate_share(3, 4)
    assert cat["F1"].value == pytest.approx(2 / 5) and dog["F1"].value == pytest.approx(6 / 9)
    assert cat["mistake"] == Mistake(taken_for="dog", share=2 / 3)
    assert dog["mistake"] == Mistake(taken_for="cat", share=0.25)
    assert 0 <= cat["F1"].low <= cat["F1"].high <= 1


def test_a_calibrated_model_s_error_may_be_none():
    probability = np.random.default_rng(0).uniform(0.5, 1, 200)
    labels = (np.random.default_rng(1).random(200) > probability).astype(int)
    answers = np.stack([probability, 1 - probability], axis=1)
    found = describe_answers(make_table("classification", labels, answers), ["dog", "cat"])
    error = found["metrics"]["calibration error"]
    assert error.value > 0.05 and error.low == 0


def test_the_worst_records_come_first_and_say_what_they_were_taken_for(figures):
    assert [each["filename"] for each in figures["answers"]["worst"][:3]] == [
        "3.png",
        "5.png",
        "6.png",
    ]
    first = figures["answers"]["worst"][0]
    assert (first["label"], first["prediction"], first["probability"]) == ("dog", "cat", 0.5)
    assert first["loss"] == pytest.approx(np.log(4))


def test_an_earlier_model_is_compared_if_it_was_asked(figures):
    assert "compared" not in figures
    earlier = np.eye(3)[[0, 1, 0, 0, 0, 1, 0]]  # right, wrong, right, right, wrong, right, wrong
    table = make_table("classification", LABELS, ANSWERS, earlier)
    compared = describe_answers(table, NAMES)["compared"]
    assert (compared["only_new"], compared["only_earlier"]) == (2, 2)
    assert compared["gained"].value == 0 and compared["p_value"] == 1


def test_many_classes_have_confusions_but_no_matrix():
    names = [f"{number:03d}" for number in range(101)]
    answers = np.roll(np.eye(101), 1, axis=1)
    found = describe_answers(make_table("classification", range(101), answers), names)
    assert found["answers"]["matrix"] is None and found["answers"]["confusions"][0] == [0, 1, 1]
    assert len(found["answers"]["confusions"]) == len(found["answers"]["worst"]) == 100


def test_a_slice_has_its_own_majority():
    table = make_table("classification", LABELS[3:], ANSWERS[3:])
    assert describe_slice(table) == {"figure": estimate_share(1, 4), "constant": 3 / 4}
    assert isinstance(describe_slice(table)["figure"], Estimate)


def test_a_bin_has_its_upper_end():
    probabilities = np.array([0, 1e-9, 1 / 15, 1 / 15 + 1e-9, 0.5, 1])
    assert bin_probabilities(probabilities).tolist() == [0, 0, 0, 1, 7, 14]


def test_the_error_is_the_mean_distance_of_probability_and_accuracy():
    probabilities = np.array([0.9, 0.9, 0.9, 0.9, 0.5, 0.5])
    is_right = np.array([True, True, True, False, False, False])
    bins = bin_probabilities(probabilities)
    # Four at 0.9 with accuracy 0.75, and two at 0.5 with 0.
    expected = (4 * 0.15 + 2 * 0.5) / 6
    once = np.ones(6, np.int64)
    assert calibration_error(bins, probabilities, is_right, once) == pytest.approx(expected)
    # Without the last two only 0.15 is left.
    some = np.array([2, 2, 2, 2, 0, 0])
    assert calibration_error(bins, probabilities, is_right, some) == pytest.approx(0.15)
    assert np.isnan(calibration_error(bins, probabilities, is_right, 0 * once))


def test_chance_alone_makes_an_error():
    # Of 10,000 coins 112 more or fewer than half are heads in one of 40 times.
    assert find_chance(np.full(10**4, 7), np.full(10**4, 0.5)) == pytest.approx(0.0112, rel=0.05)
    assert find_chance(np.full(10, 14), np.ones(10)) == 0


def test_the_curve_has_a_point_for_each_bin_with_records():
    found = describe_bins(np.array([0.9, 0.92, 0.2]), np.array([True, False, False]))
    assert [(each["records"], each["accuracy"]) for each in found] == [(1, 0), (2, 0.5)]
    assert found[1]["probability"] == pytest.approx(0.91)
    assert (found[1]["low"], found[1]["high"]) == wilson_interval(1, 2)
    assert found[1]["up_to"] == pytest.approx(14 / 15)


def make_clusters(records, classes=4, flipped=20, seed=0):
    """Classes at the corners of a cube, and some records with another class's label."""
    random = np.random.default_rng(seed)
    true = np.arange(records) % classes
    embeddings = 8 * np.eye(classes, 8)[true] + random.normal(size=(records, 8))
    labels = true.copy()
    wrong = random.choice(records, flipped, replace=False)
    labels[wrong] = (labels[wrong] + random.integers(1, classes, flipped)) % classes
    keys = random.integers(0, 2**63, records).astype(np.uint64)
    return embeddings.astype(np.float32), labels, keys, true, set(wrong.tolist())


def test_planted_errors_are_found():
    embeddings, labels, keys, true, wrong = make_clusters(400)
    suspects, judged, agreed = find_suspects(embeddings, labels, keys)
    assert judged == 400 and agreed == 0.95
    # Precision and recall are the same at as many as were planted.
    first = suspects[: len(wrong)]
    assert len({each.row for each in first} & wrong) >= 17
    right = [each.likelier == true[each.row] for each in first if each.row in wrong]
    assert sum(right) == len(right)
    scores = [each.score for each in suspects]
    assert scores == sorted(scores)
    assert all(each.score < each.likelier_score for each in first)


def test_the_same_records_give_the_same_suspects_whatever_their_order():
    embeddings, labels, keys, _, _ = make_clusters(200)
    suspects, *_ = find_suspects(embeddings, labels, keys)
    assert suspects == find_suspects(embeddings, labels, keys)[0]
    order = np.random.default_rng(2).permutation(200)
    others, *_ = find_suspects(embeddings[order], labels[order], keys[order])
    assert {int(order[each.row]) for each in others} == {each.row for each in suspects}


def test_no_record_is_judged_by_a_model_that_has_seen_it():
    """Labels without any rule cannot be learned, however many dimensions there are."""
    random = np.random.default_rng(0)
    features, labels = random.normal(size=(200, 150)), np.arange(200) % 2
    probabilities = cross_validate(features, labels, np.arange(200) // 2 % 5)
    assert abs((probabilities.argmax(axis=1) == labels).mean() - 0.5) < 0.15


def test_a_record_counts_for_a_class_that_is_as_likely_as_it_usually_is():
    probabilities = np.array(
        [[0.9, 0.1], [0.7, 0.3], [0.1, 0.9], [0.4, 0.6], [0.25, 0.75], [0.35, 0.65]]
    )
    labels = np.array([0, 0, 0, 1, 1, 1])
    # Usual: (0.9 + 0.7 + 0.1) / 3 for the first class, (0.6 + 0.75 + 0.65) / 3 for the second.
    assert find_likelier(probabilities, labels).tolist() == [-1, -1, 1, -1, -1, -1]


def test_classes_that_a_fold_could_not_learn_are_not_judged():
    labels = np.array([0] * 5 + [1] * 4 + [2] * 5)
    keys = np.array([0, 1, 2, 3, 4, 0, 1, 2, 3, 7, 7, 7, 7, 7], np.uint64)
    assert find_judged(labels, keys).tolist() == [True] * 5 + [False] * 9
    assert find_suspects(np.zeros((14, 2), np.float32), labels, keys) == ([], 0, 0.0)


TAGS = ["sea", "sky", "emu"]
TRUE = [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
TAGGED = [[0.9, 0.2, 0.1], [0.6, 0.7, 0.1], [0.1, 0.1, 0.1]]


def test_tags_have_precision_recall_and_f1():
    found = describe_tags(make_table("tagging", TRUE, TAGGED), TAGS)
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
    assert find_constant(np.array([1, 3, 0]), 4, TAGS) == {"answer": "sky", "value": 0.75}


def test_a_slice_has_its_f1():
    table = make_table("tagging", TRUE[:1], TAGGED[:1])
    assert describe_tags_of_slice(table)["figure"].value == pytest.approx(2 / 3)
    nothing = make_table("tagging", TRUE[2:], TAGGED[2:])
    assert np.isnan(describe_tags_of_slice(nothing)["figure"].value)


def test_an_earlier_model_s_f1_is_compared_on_the_same_images():
    assert "F1 gained" not in describe_tags(make_table("tagging", TRUE, TAGGED), TAGS)["metrics"]
    # It answers the sky everywhere: two right ones of three, 2·2 / (3 + 3), and now the same.
    table = make_table("tagging", TRUE, TAGGED, [[0.1, 0.9, 0.1]] * 3)
    assert describe_tags(table, TAGS)["metrics"]["F1 gained"].value == pytest.approx(0)
    # Two right ones of two, of three true ones: 2·2 / (2 + 3).
    better = make_table("tagging", TRUE, TAGGED, [[0.9, 0.9, 0.1], [0.1] * 3, [0.1] * 3])
    gained = describe_tags(better, TAGS)["metrics"]["F1 gained"]
    assert gained.value == pytest.approx(2 / 3 - 4 / 5)
    assert gained.interval == pytest.approx((-1 / 3, 2 / 3))
