"""What ingest found wrong or doubtful: quarantine, duplicates, look-alikes, conflicting labels."""

import collections
from typing import Any

from image_pipeline.components.dataset.lists import Duplicate, LookAlikes, Quarantined, read_list
from image_pipeline.components.names import decode_name
from image_pipeline.report.data_set import DataSet

_MOST_A_REASON = 6
_MOST_GROUPS = 12
_MOST_MEMBERS = 8


def describe_quarantine(data_dir: str, reasons: dict[str, int]) -> dict[str, Any]:
    """Some files of each reason.

    Args:
      data_dir: the data set's folder.
      reasons: how many files were rejected for each reason, as the manifest says.

    Returns:
      `total`, and `reasons`: for each its `name`, `count` and the first `files`, each with `path`,
      `message`, `bytes` and `sha256`.
    """
    files: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for line in read_list(data_dir, Quarantined):
        if len(files[line.reason]) < _MOST_A_REASON:
            shown = {name: getattr(line, name) for name in ("message", "bytes", "sha256")}
            files[line.reason].append({"path": decode_name(line.path), **shown})
    rows = [{"name": name, "count": n, "files": files[name]} for name, n in reasons.items()]
    return {"total": sum(reasons.values()), "reasons": rows}


def describe_duplicates(data_dir: str, data: DataSet) -> dict[str, Any]:
    """Files with the same bytes, and those among them whose labels differ.

    Returns:
      `groups` and `files`: how many; `conflicts`: how many files have another label than the first
      file of the same bytes; `largest` and `conflicting`: the first groups, each with the `path`,
      `label` and `row` of the first file (`row` None if it is not stored) and the `copies`: pairs
      of a path and a label.
    """
    groups: dict[str, list[Duplicate]] = collections.defaultdict(list)
    for line in read_list(data_dir, Duplicate):
        groups[line.original].append(line)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    conflicting = [item for item in ordered if any(map(_is_conflict, item[1]))][:_MOST_GROUPS]
    largest = ordered[:_MOST_GROUPS]
    rows = data.find_rows(path for path, _ in [*largest, *conflicting])
    return {
        "groups": len(groups),
        "files": sum(map(len, groups.values())),
        "conflicts": sum(_is_conflict(line) for lines in groups.values() for line in lines),
        "largest": [_describe_group(*item, rows) for item in largest],
        "conflicting": [_describe_group(*item, rows) for item in conflicting],
    }


def describe_near_duplicates(data_dir: str, data: DataSet) -> dict[str, Any]:
    """Images that look alike; to be called only if there was a search.

    Returns:
      `groups` and `images`: how many; `largest`: the first groups, each with its `size` and
      `members`, which have `path`, `label`, `split` and `row`.
    """
    lines = sorted(read_list(data_dir, LookAlikes), key=lambda line: -line.size)
    shown = lines[:_MOST_GROUPS]
    rows = data.find_rows(path for line in shown for path in line.paths[:_MOST_MEMBERS])
    return {
        "groups": len(lines),
        "images": sum(line.size for line in lines),
        "largest": [
            {"size": line.size, "members": _describe_members(line, rows)} for line in shown
        ],
    }


def _describe_group(original: str, copies: list[Duplicate], rows: dict[str, int]) -> dict[str, Any]:
    path = decode_name(original)
    return {
        "path": path,
        "label": copies[0].original_label,
        "row": rows.get(path),
        "size": len(copies) + 1,
        "copies": [(decode_name(each.path), each.label) for each in copies[:_MOST_MEMBERS]],
    }


def _describe_members(line: LookAlikes, rows: dict[str, int]) -> list[dict[str, Any]]:
    members = list(zip(line.paths, line.labels, line.splits, strict=True))
    return [
        {"path": name, "label": label, "split": split, "row": rows.get(name)}
        for path, label, split in members[:_MOST_MEMBERS]
        for name in [decode_name(path)]
    ]


def _is_conflict(line: Duplicate) -> bool:
    return line.label != line.original_label
