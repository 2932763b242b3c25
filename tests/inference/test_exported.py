"""Rows of answers as names and numbers."""

import numpy as np
import pytest

from image_pipeline.components.inference.exported import describe_row

pytestmark = pytest.mark.unit

NAMES = np.array([b"cat", b"dog", b"owl"], object)


def test_classes_are_ranked_and_ties_keep_the_vocabularys_order():
    row = {"probabilities": np.float32([0.25, 0.5, 0.25]), "classes": NAMES, "label": b"dog"}
    assert describe_row(row, top=2) == {
        "label": "dog",
        "probability": 0.5,
        "top": [{"label": "dog", "probability": 0.5}, {"label": "cat", "probability": 0.25}],
    }


def test_tags_are_those_that_the_model_answers():
    row = {
        "probabilities": np.float32([0.75, 0.25, 0.5]),
        "classes": NAMES,
        "tags": np.array([b"cat", b"", b""], object),
    }
    assert describe_row(row, top=1) == {
        "tags": ["cat"],
        "top": [{"label": "cat", "probability": 0.75}],
    }


def test_a_value_is_the_models_float32_exactly():
    assert describe_row({"value": np.float32(0.1)}, top=3) == {"value": 0.10000000149011612}


def test_a_mask_is_told_by_the_shares_of_its_classes():
    row = {
        "mask": np.uint8([[0, 2], [2, 2]]),
        "mask_bytes": b"PNG",
        "confidence": np.float32(0.5),
        "classes": NAMES,
    }
    told = describe_row(row, top=3)
    assert told == {"classes": {"owl": 0.75, "cat": 0.25}, "confidence": 0.5, "mask_bytes": b"PNG"}
    assert list(told["classes"]) == ["owl", "cat"]


def test_of_boxes_only_those_that_were_found_are_told():
    row = {
        "boxes": np.float32([[0, 0, 0.5, 1], [0.25, 0, 1, 1], [0, 0, 0, 0]]),
        "scores": np.float32([0.75, 0.5, 0]),
        "labels": np.array([b"dog", b"cat", b""], object),
        "count": np.int32(2),
        "classes": NAMES,
    }
    first = {"label": "dog", "score": 0.75, "box": [0.0, 0.0, 0.5, 1.0]}
    assert describe_row(row, top=1) == {"count": 2, "objects": [first]}
    assert len(describe_row(row, top=9)["objects"]) == 2
