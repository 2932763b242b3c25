"""What the page, the plots and the comparison show of the raw results: medians of rounds."""

import statistics
from typing import Any

Raw = dict[str, Any]

TASKS = {
    "train_jpeg": "training, JPEG 256 px → 224",
    "train_raw": "training, raw 256 px → 224",
    "originals_train": "training, original files → 224",
    "val_jpeg": "validation, JPEG 256 px → 224",
    "val_raw": "validation, raw 256 px → 224",
    "originals_val": "validation, original files → 224",
    "cifar": "CIFAR-10: pad and crop, flip, cutout",
    "cifar_rotated": "CIFAR-10, rotated besides",
}


def cpu_per_1000(rounds: list[Raw]) -> float:
    """CPU seconds for 1,000 images, the median of the rounds."""
    return statistics.median(1e3 * entry["cpu_s"] / entry["images"] for entry in rounds)


def images_per_s(rounds: list[Raw]) -> float:
    """Images a second, the median of the rounds."""
    return statistics.median(entry["images"] / entry["wall_s"] for entry in rounds)


def cpu_ratio(ours: list[Raw], others: list[Raw]) -> float:
    """Ours / theirs in CPU seconds: the median of each round's pair."""
    pairs = zip(ours, others, strict=True)
    return statistics.median(mine["cpu_s"] / theirs["cpu_s"] for mine, theirs in pairs)


def list_ratios(raw: dict[str, Raw]) -> dict[str, float]:
    """Every ratio of CPU time that a set of raw results has, by its name: ours / a rival's."""
    found = {}
    for task, readers in raw.get("read", {"results": {"tasks": {}}})["results"]["tasks"].items():
        ours = readers.get("ours", {"rounds": []})["rounds"]
        for name, reader in readers.items():
            if ours and reader["rounds"] and name != "ours":
                found[f"{task}: ours / {name}"] = cpu_ratio(ours, reader["rounds"])
    writers = raw["write"]["results"]["writers"] if "write" in raw else {}
    for name, rounds in writers.items():
        if "ours" in writers and name != "ours":
            found[f"write: ours / {name}"] = cpu_ratio(writers["ours"], rounds)
    return found
