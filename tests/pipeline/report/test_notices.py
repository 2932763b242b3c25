import dataclasses

import pytest

from image_pipeline.report.classes import ClassCounts, ClassTable
from image_pipeline.report.notices import Notice, list_notices
from image_pipeline.report.problems import Check

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


def test_little_waiting_is_not_worth_a_notice(figures, source):
    waited = {"input_wait_seconds_per_epoch": [0.1, 0.0, 0.125]}  # of 2.5 s
    training = dataclasses.replace(figures["training"], **waited)
    texts = [each.text for each in list_notices(figures | {"training": training}, source.manifest)]
    assert not any("waited" in text for text in texts)


def test_labels_in_doubt_are_noticed_if_their_judges_are_good(figures, source):
    def texts(**judged):
        told = {"judged": 2000, "suspected": 3, "is_weak": False} | judged
        return [
            each.text for each in list_notices(figures | {"judged_labels": told}, source.manifest)
        ]

    assert "Labels in doubt: 3 of 2,000; look at the first ones before anything else." in texts()
    assert not any("doubt" in text for text in texts(is_weak=True) + texts(suspected=0))


def test_records_of_unknown_class_and_values_that_are_no_numbers_are_noticed(figures, source):
    unknown = {"train": 0, "eval": 1200}
    metrics = {"auc": [0.5, None]}
    training = dataclasses.replace(figures["training"], unknown_records=unknown, metrics=metrics)
    texts = [each.text for each in list_notices(figures | {"training": training}, source.manifest)]
    assert (
        "Records of classes unknown to training, left out of all figures: 1,200 of eval."
    ) in texts
    assert "Not every value of auc is a number." in texts


def test_notices_of_broken_books_uneven_classes_and_leakage(figures, source):
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
    # By chance a split lacks a class, where images are shared out whatever theirs is.
    books = source.manifest.books.model_copy(update={"classes": {"train": {"emu": 1}, "eval": {}}})
    shared = source.manifest.model_copy(update={"books": books})
    assert [each.text for each in list_notices(bad, shared)] == [
        "The books do not balance: files are unaccounted for.",
        "Stored images that cannot be decoded: 2; run image-pipeline verify.",
        "In more than one split: look-alikes (3), so that evaluation tests on what was trained on; "
        "ingest.near_duplicates=4 keeps them in one.",
        "Classes without records in the split eval: 1 of 2; more images, or ingest.stratify=true.",
        "cat has 12 times the records of emu; more images of the latter, or "
        "training.class_weights=balanced.",
    ]
    given = shared.model_copy(update={"options": shared.options | {"stratify": True}})
    texts = [each.text for each in list_notices(bad, given)]
    assert "Classes without records in the split eval: 1 of 2; more images." in texts
    joined = dataclasses.replace(figures["near_duplicates"], compared=None)  # By ingest.
    texts = [each.text for each in list_notices(bad | {"near_duplicates": joined}, given)]
    assert texts[2].endswith("trained on; correct ingest.split_pattern or the folders.")


def test_what_meaning_was_lost_or_inferred_is_noticed(figures, source):
    def tell(notes, **more):
        shapes = dataclasses.replace(figures["shapes"], notes=notes)
        found = list_notices(figures | {"shapes": shapes} | more, source.manifest)
        return [(each.section, each.text) for each in found]

    usual = {*tell([])}
    assert {*tell([("dropped_boxes", 3)])} - usual == {
        (
            "shapes",
            "Images with boxes that cannot be used, left out: 3 of 23; "
            "ingest.boxes.bad_boxes=quarantine lists them.",
        )
    }
    assert {*tell([("clipped_boxes", 11)])} == usual  # Fewer than half.
    ((section, text),) = {*tell([("clipped_boxes", 12)])} - usual
    assert section == "shapes" and text.startswith("12 of 23 images have boxes that reach beyond")
    assert {*tell([], understood=["a", "b"])} - usual == {
        (
            "understood",
            "What the images mean was inferred: 2 sentences; where one is wrong, set the option "
            "that it names.",
        )
    }


def test_a_last_run_that_has_not_finished_is_said_unless_it_is_known_what_is_shown(figures, source):
    runs = [{"run": 2, "steps": [{"state": "made"}, {"state": "unfinished"}]}, {"run": 1}]
    told = list_notices(figures | {"history": runs}, source.manifest)[0]
    text = "Run 2, the last one, has not finished; an earlier one is shown."
    assert told == Notice("history", text)
    told = list_notices(figures | {"history": runs}, source.manifest, "It is lost.")[:2]
    assert told[0] == Notice("history", "It is lost.") and told[1].section != "history"
