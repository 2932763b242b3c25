import dataclasses

import pytest

from image_pipeline.report.classes import ClassCounts, ClassTable
from image_pipeline.report.leakage import Check
from image_pipeline.report.notices import list_notices

pytestmark = pytest.mark.beam


def test_notices_name_what_to_look_at(figures):
    sections = [(each.section, each.text) for each in figures["notices"]]
    assert sections == [
        (
            "conflicts",
            "Files with the same bytes as one with another label: 1; correct the labels, and "
            "ingest again.",
        ),
        ("quarantine", "Rejected files: 2 (7.4 %); repair them, and ingest again."),
        ("verdict", "The model was not good enough to be pushed."),
        ("anomalies", "Columns that do not fit the schema: 1."),
        (
            "training",
            "Training waited for input 15.0 % of its time; image-pipeline doctor says why.",
        ),
        (
            "training",
            "The eval loss was lowest after epoch 2 of 3; fewer epochs, or "
            "training.early_stopping.",
        ),
    ]


def test_little_waiting_is_not_worth_a_notice(figures):
    waited = {"input_wait_seconds_per_epoch": [0.1, 0.0, 0.125]}  # of 2.5 s
    training = dataclasses.replace(figures["training"], **waited)
    texts = [each.text for each in list_notices(figures | {"training": training})]
    assert not any("waited" in text for text in texts)


def test_labels_in_doubt_are_noticed_if_their_judges_are_good(figures):
    def texts(**judged):
        told = {"judged": 2000, "suspected": 3, "is_weak": False} | judged
        return [each.text for each in list_notices(figures | {"judged_labels": told})]

    assert "Labels in doubt: 3 of 2,000; look at the first ones before anything else." in texts()
    assert not any("doubt" in text for text in texts(is_weak=True) + texts(suspected=0))


def test_records_of_unknown_class_and_values_that_are_no_numbers_are_noticed(figures):
    unknown = {"train": 0, "eval": 1200}
    metrics = {"auc": [0.5, None]}
    training = dataclasses.replace(figures["training"], unknown_records=unknown, metrics=metrics)
    texts = [each.text for each in list_notices(figures | {"training": training})]
    assert (
        "Records of classes unknown to training, left out of all figures: 1,200 of eval."
    ) in texts
    assert "Not every value of auc is a number." in texts


def test_notices_of_broken_books_uneven_classes_and_leakage(figures):
    bad = figures | {
        "books": figures["books"] | {"balanced": False, "quarantined": 0, "conflicting_labels": 0},
        "classes": ClassTable(
            ["train", "eval"],
            [ClassCounts("cat", [12, 0], 12), ClassCounts("emu", [1, 0], 1)],
            [("eval", 1)],
            12.0,
        ),
        "leakage": [Check("look-alikes", 3, ""), Check("groups", None, "")],
        "pixels": dataclasses.replace(figures["pixels"], undecodable=2),
        **dict.fromkeys(("anomalies", "evaluation", "training")),
    }
    assert [each.text for each in list_notices(bad)] == [
        "The books do not balance: files are unaccounted for.",
        "Stored images that cannot be decoded: 2; run image-pipeline verify.",
        "In more than one split: look-alikes (3), so that evaluation asks what was trained on; "
        "ingest.near_duplicates=4 keeps them in one.",
        "Classes without a record in the split eval: 1 of 2; more images, or ingest.stratify=true.",
        "cat has 12 times the records of emu; more images of the latter, or "
        "training.class_weights=balanced.",
    ]
