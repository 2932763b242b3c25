"""A prediction for a person: one row of a model's outputs as names and numbers.

A prediction is a dict that JSON can hold, but for a mask's PNG, whose key is `MASK_BYTES`.
"""

from typing import Any

import numpy as np

from image_pipeline.components.dataset import record
from image_pipeline.components.tasks.signatures import (
    BOXES,
    CLASSES,
    CONFIDENCE,
    COUNT,
    LABEL,
    LABELS,
    MASK,
    MASK_BYTES,
    PROBABILITIES,
    SCORES,
    TAGS,
    VALUE,
)

Prediction = dict[str, Any]


def describe_row(row: dict[str, Any], top: int) -> Prediction:
    """The prediction of a valid row; numbers are the model's float32, exactly.

    Args:
      row: the outputs of the signature for image files for one file.
      top: how many of the likeliest classes, tags or objects are named at most.

    Returns:
      For classes `label`, `probability`, `top`; for tags `tags`, `top`; for values `value`; for
      masks `classes` (the share of pixels of each that occurs), `confidence` and the PNG; for boxes
      `objects`, likeliest first, and `count`, of which those are the first.
    """
    if VALUE in row:
        return {"value": float(row[VALUE])}
    if MASK in row:
        return _describe_mask(row)
    if BOXES in row:
        return _describe_boxes(row, top)
    likeliest = _rank(row, top)
    if TAGS in row:
        return {"tags": [name.decode() for name in row[TAGS] if name], "top": likeliest}
    label = row[LABEL].decode()
    names = [name.decode() for name in row[CLASSES]]
    probability = float(row[PROBABILITIES][names.index(label)])
    return {"label": label, "probability": probability, "top": likeliest}


def _rank(row: dict[str, Any], top: int) -> list[Prediction]:
    """The likeliest names; of equally likely ones the first in the vocabulary, as argmax has it."""
    order = np.argsort(-row[PROBABILITIES], kind="stable")[:top]
    return [
        {"label": row[CLASSES][i].decode(), "probability": float(row[PROBABILITIES][i])}
        for i in order
    ]


def _describe_mask(row: dict[str, Any]) -> Prediction:
    ids, pixels = np.unique(row[MASK][row[MASK] != record.IGNORED], return_counts=True)
    shares = {
        row[CLASSES][i].decode(): float(count / row[MASK].size)
        for i, count in sorted(zip(ids, pixels, strict=True), key=lambda pair: (-pair[1], pair[0]))
    }
    return {
        "classes": shares,
        "confidence": float(row[CONFIDENCE]),
        MASK_BYTES: bytes(row[MASK_BYTES]),
    }


def _describe_boxes(row: dict[str, Any], top: int) -> Prediction:
    count = int(row[COUNT])
    objects = [
        {
            "label": row[LABELS][i].decode(),
            "score": float(row[SCORES][i]),
            "box": [float(side) for side in row[BOXES][i]],
        }
        for i in range(min(count, top))
    ]
    return {"count": count, "objects": objects}
