"""The lines of a run's summary that tell of the transform graph and of training."""

import io

import pytest
from rich.console import Console

from image_pipeline.components.errors import UserError
from image_pipeline.show import summary as summary_module
from image_pipeline.show.ingest_summary import find_missing_classes, ingest_rows
from image_pipeline.show.summary import print_summary
from tests.evaluation.found import FOUND

pytestmark = pytest.mark.unit

CLASSES = [{"name": "cat", "records": 6}, {"name": "dog", "records": 3}]

INGEST = {
    **dict.fromkeys(("found", "written", "quarantined", "duplicates", "bytes"), 9),
    **dict.fromkeys(("conflicting_labels", "straddling"), 0),
    "near_duplicates": None,
    "splits": {"train": 9},
    "shards": {"train": 1},
    "quarantine_reasons": {},
    "missing_classes": {},
}


def _print(constant_channels, classes, training=None, **further):
    summary = {
        "spans": [0],
        "ingest": INGEST,
        "statistics": {"mean": [1.0, 7.0]},
        "constant_channels": constant_channels,
        "classes": classes,
        "training": {"steps": 3, "epochs": 1, "input_wait": None} | (training or {}),
        "evaluation": FOUND.model_dump(exclude={"answers"}),
        "blessed": False,
        "paths": {},
        **further,
    }
    file = io.StringIO()
    print_summary(summary, Console(file=file, width=200))
    return file.getvalue()


def test_constant_channels_and_classes_are_told():
    lines = _print([1], CLASSES).splitlines()
    assert "constant channels        1: one value everywhere, so divided by 1 (std 1)" in lines
    assert "classes                  2, most cat (6), fewest dog (3)" in lines


def test_what_there_is_not_has_no_line():
    text = _print([], [])
    assert "mean                     1.0000, 7.0000" in text
    assert "constant channels" not in text and "classes" not in text
    assert "waited" not in text and "trace" not in text


def test_intervals_are_told_of_the_whole_and_of_the_weakest_class():
    lines = _print([], []).splitlines()
    assert "eval accuracy            0.750 (0.410 to 0.930)" in lines
    assert "eval records             8" in lines
    assert (
        "weakest class            cat, accuracy 0.500 (0.250 to 0.750): 2 of 4 are right" in lines
    )


def test_unknown_classes_and_an_added_softmax_are_told():
    unknown = {"eval": {"emu": 12, "yak": 1}, "train": dict.fromkeys("abcd", 1)}
    lines = _print([], CLASSES, {"softmax_added": True}, unknown_classes=unknown).splitlines()
    assert (
        "unknown classes          13 of eval ('emu', 'yak'); 4 of train ('a', 'b', 'c', …): left "
        "out of loss, metrics and evaluation"
    ) in lines
    assert "model's output           logits; the exported model adds a softmax" in lines


def test_the_first_weights_random_steps_and_the_best_epoch_are_told():
    steps = [{"op": "pad_and_crop", "pad": 0.125}, {"op": "flip_horizontal"}]
    told = {"started_from": "training.weights=a.h5", "best_epoch": 2, "random_steps": steps}
    told["noticed"] = ["the model's layer 'r' scales grey levels"]
    lines = _print([], [], told).splitlines()
    assert "look at                  the model's layer 'r' scales grey levels" in lines
    assert "random steps             pad_and_crop, flip_horizontal" in lines
    assert "started from             training.weights=a.h5" in lines
    assert "best epoch               2, by early stopping's figure" in lines
    others = _print([], []).splitlines()
    assert not [line for line in others if line.startswith(("started", "best", "random"))]
    assert "random steps             none" in _print([], [], {"random_steps": []}).splitlines()


def test_tags_that_training_has_not_seen_are_told():
    unknown = {"eval": {"new": 2}}
    lines = _print([], CLASSES, label="image/tags", unknown_classes=unknown).splitlines()
    assert "unknown tags             2 of eval ('new'): fed as 0 everywhere" in lines


def test_the_share_of_waiting_is_told():
    lines = _print([], [], {"input_wait": {"share": 0.0312}}).splitlines()
    assert "waited for input         3.1% of training's time" in lines


def test_where_the_profile_is_and_its_slowest_operations_are_told():
    op = {"name": "conv", "kind": "Conv2D", "where": "/host:CPU", "calls": 1200, "self_ms": 10.0}
    profile = {"folder": "out/[run]", "size_bytes": 1.5e6, "steps": 2, "slowest": [op]}
    text = _print([], [], profile=profile)
    assert "The trace of 2 steps (1.5 MB) is in out/[run]: tensorboard --logdir shows it" in text
    assert f"     10.0 ms  1,200 x  {'Conv2D':<28} conv\n" in text


def test_classes_that_a_split_lacks_are_told():
    classes = {"train": {"cat": 3, "dog": 1}, "eval": {"cat": 1, "owl": 1}, "test": {}}
    missing = find_missing_classes(classes)
    assert missing == {"train": ["owl"], "eval": ["dog"], "test": ["cat", "dog", "owl"]}
    rows = dict(ingest_rows(INGEST | {"missing_classes": missing}))
    assert (rows["not in train"], rows["not in test"]) == (
        "1 class: owl",
        "3 classes: cat, dog, owl",
    )
    many = {"eval": [f"c{n}" for n in range(7)]}
    rows = dict(ingest_rows(INGEST | {"missing_classes": many}))
    assert rows["not in eval"] == "7 classes: c0, c1, c2, c3, c4, …"
    rows = dict(ingest_rows(INGEST | {"missing_classes": many, "share_out": "set it"}))
    assert rows["not in eval"] == "7 classes: c0, c1, c2, c3, c4, …; set it"


def test_images_without_labels_lack_no_class():
    assert find_missing_classes({"train": {"": 3}, "eval": {}}) == {}


def test_the_last_line_says_why_a_model_was_not_pushed():
    failure = {"option": "evaluation.min_accuracy", "threshold": 0.5, "measured": 0.439024}
    missed = {"failures": [failure | {"measure": "accuracy"}], "blessed": False}
    evaluation = FOUND.model_dump() | missed
    text = _print([], CLASSES, evaluation=evaluation, paths={"model": "out/[m]"}, blessed=False)
    assert text.splitlines()[-2] == (
        "The model was not pushed: its accuracy is 0.439, but evaluation.min_accuracy asks for at "
        "least 0.5. The model is in out/[m]."
    )
    assert text.splitlines()[-1] == (
        "Next: look at the labels in doubt (2); more images or epochs (training.epochs), or other "
        "weights (training.weights). The report shows where it is wrong."
    )
    assert "The model was" not in _print([], CLASSES, blessed=True)


def test_masks_have_their_own_words():
    failure = {"option": "evaluation.min_mean_iou", "threshold": 0.5, "measured": 0.4391}
    evaluation = {
        **{"task": "segmentation", "measure": "mean IoU", "records": 10, "blessed": False},
        "metrics": {"mean IoU": {"value": 0.4391}, "pixel accuracy": {"value": 0.9}},
        "classes": [{"name": "pole", "records": 25, "figure": {"value": 0.25}}],
        "failures": [failure | {"measure": "mean IoU"}],
    }
    names = {"mask_classes": ["sky", "pole"], "mask_pixels": [975, 25]}
    text = _print([], [], evaluation=evaluation, blessed=False, **names)
    lines = text.splitlines()
    for line in (
        "mask classes             2, most sky (97.50% of pixels), fewest pole (2.50% of pixels)",
        "eval mean IoU            0.4391",
        "eval pixel accuracy      0.9",
        "weakest class            pole, IoU 0.25",
    ):
        assert line in lines
    assert lines[-2].startswith(
        "The model was not pushed: its mean IoU is 0.4391, but evaluation.min_mean_iou asks for at "
        "least 0.5."
    )


def test_a_training_without_its_history_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"must have history\.json, which training writes"):
        summary_module._gather_training(str(tmp_path))
