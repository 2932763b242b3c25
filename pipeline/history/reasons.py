"""Why a step was made again: what TFX compares before it reuses an output, compared in words."""

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from image_pipeline.components import files
from image_pipeline.components.dataset.index_file import scan_index
from image_pipeline.components.dataset.lists import Quarantined, read_list
from image_pipeline.components.dataset.manifest import has_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.json_text import flatten
from image_pipeline.components.sources.span_pattern import name_span
from image_pipeline.history.past_runs import PastRun, Step, read_runs
from image_pipeline.tfx_metadata import SPAN_RESOLVER

FIRST = "it is the first time"
_CODE = "code_version"
_IMAGES = ("images_dir", "fingerprint", "span")
# The group of the configuration that a parameter holds; the Trainer's holds several.
_GROUPS = {
    ("ImageExampleGen", "options"): "ingest.",
    ("ImageTransform", "options"): "transform.",
    ("ImageTransform", "view"): "view.",
    ("Trainer", "custom_config"): "",
    ("Evaluator", "options"): "evaluation.",
    ("ImagePredictor", "options"): "inference.",
}
# Of steps that every run makes again.
_ALWAYS = {SPAN_RESOLVER: "each run looks for the latest spans"}
_MOST_CHARACTERS, _MOST_REASONS = 40, 3


def explain_step(runs: Sequence[PastRun], step: Step) -> list[str]:
    """Why a step was made again.

    Returns:
      The reasons in words, in the order of their weight; none if it was reused.
    """
    if step.state == "reused":
        return []
    before = _list_earlier(runs, step)
    done = [each for each in before if each.is_done]
    if not done:
        return ["it has not finished before" if before else FIRST]
    alike = [each for each in done if each.parameters.get("span") == step.parameters.get("span")]
    previous = (alike or done)[-1]
    reasons = [*_compare_images(step, previous), *_compare_options(step, previous)]
    old, new = (
        {name: [each.id for each in own] for name, own in each.inputs.items()}
        for each in (previous, step)
    )
    reasons += _list_changed(old, new)
    if _code_of(step) != _code_of(previous):
        reasons.append("the code changed")
    if not reasons:
        # Parameters that are not options of the configuration, but derived from these.
        known = {_CODE, *_IMAGES, *(name for _, name in _GROUPS)}
        derived = [
            {name: value for name, value in each.parameters.items() if name not in known}
            for each in (previous, step)
        ]
        reasons = _list_changed(*derived)
    if not reasons and not before[-1].is_done:
        reasons = ["it did not finish the last time"]
    outputs = (each for own in previous.outputs.values() for each in own)
    if not reasons and not all(files.exists(each.uri) for each in outputs):
        reasons = ["its earlier output is gone"]
    return reasons or [_ALWAYS.get(step.component, "it was asked for")]


def explain_execution(metadata_path: str, number: int) -> str:
    """What a step that has just ended was made for, or when what it reused was made.

    Returns:
      A few words; "" if it is the first of its kind.
    """
    runs = read_runs(metadata_path)
    steps = {step.id: step for run in runs for step in run.steps}
    if number not in steps:  # A Resolver that had nothing to choose from.
        return ""
    step = steps[number]
    if step.state == "reused":
        return f"reused, made {format_time(steps[step.made_by].ended_ms)}"
    reasons = explain_step(runs, step)
    return "" if reasons == [FIRST] else f"made again: {join_reasons(reasons)}"


def join_reasons(reasons: Sequence[str]) -> str:
    """The first reasons, and how many more there are."""
    more = len(reasons) - _MOST_REASONS
    return "; ".join([*reasons[:_MOST_REASONS], *([f"{more} more"] if more > 0 else [])])


def format_time(moment_ms: int) -> str:
    """A moment, in milliseconds since 1970, in local time."""
    return datetime.datetime.fromtimestamp(moment_ms / 1000).strftime("%Y-%m-%d %H:%M")


def list_changes(runs: Sequence[PastRun], run: PastRun) -> list[str]:
    """The options that differ from those of the run before, with both values, each once."""
    earlier = [each for each in runs if each.number < run.number]
    changes: list[str] = []
    for step in run.steps:
        before = _list_earlier(earlier, step)
        if before and not _is_taken_over(step):
            changes += _compare_options(step, before[-1])
    return list(dict.fromkeys(changes))  # The Trainer has those of the steps before it, too.


def _list_earlier(runs: Sequence[PastRun], step: Step) -> list[Step]:
    """The earlier executions of a step's component that a run asked for by its options."""
    return [
        each
        for run in runs
        for each in run.steps
        if each.component == step.component and each.id < step.id and not _is_taken_over(each)
    ]


def _is_taken_over(step: Step) -> bool:
    """Whether a run of some steps only (`--from`) took a step's outputs over: it has no options."""
    names = [name for component, name in _GROUPS if component == step.component]
    return bool(names) and not any(name in step.parameters for name in names)


def _list_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What is not the same, by its name."""
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return [f"its {name.replace('_', ' ')} changed" for name in changed]


def _compare_images(step: Step, previous: Step) -> Iterator[str]:
    """What ingest reads: where it is, which span, and whether its files changed."""
    (old_dir, old_print, old_span), (new_dir, new_print, new_span) = (
        [each.parameters.get(name) for name in _IMAGES] for each in (previous, step)
    )
    if old_dir != new_dir:
        yield f"the images are {new_dir}, not {old_dir}"
    elif old_span != new_span:
        yield f"span {name_span(str(new_dir), str(new_span))} is new"
    elif old_print != new_print:
        try:
            found = compare_images(_data_set(previous), _data_set(step))
        except UserError as error:  # Of one that was damaged since.
            found = str(error)
        yield f"the images changed: {found}" if found else "the images changed"


def _data_set(step: Step) -> str | None:
    examples = step.outputs.get("examples", ())
    return examples[0].uri if examples else None


def _compare_options(step: Step, previous: Step) -> list[str]:
    """The options of the configuration that differ, with both values unless these are long."""
    (old, new), changes = map(_options_of, (previous, step)), []
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            change = f"{_to_yaml(old.get(key))} → {_to_yaml(new.get(key))}"
            changes.append(f"{key} {change if len(change) < _MOST_CHARACTERS else 'changed'}")
    return changes


def _options_of(step: Step) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (component, name), prefix in _GROUPS.items():
        if component == step.component and name in step.parameters:
            found |= flatten(json.loads(str(step.parameters[name])), prefix=prefix)
    found.pop(_CODE, None)
    # One that is left out is the same as null.
    return {name: value for name, value in found.items() if value not in (None, {})}


def _to_yaml(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6)
    return text.removesuffix("\n").removesuffix("...").strip()


def _code_of(step: Step) -> list[Any]:
    config = json.loads(str(step.parameters.get("custom_config", "null")))  # TFX's may be null.
    return [step.parameters.get(_CODE), (config or {}).get(_CODE)]


def compare_images(old_dir: str | None, new_dir: str | None) -> str | None:
    """Counts what came, went and changed.

    Returns:
      The counts in words; None if one of the data sets is gone.
    """
    if not (old_dir and new_dir and has_manifest(old_dir) and has_manifest(new_dir)):
        return None
    old, new = _read_ids(old_dir), _read_ids(new_dir)
    was_bad = {each.path for each in read_list(old_dir, Quarantined)}
    is_bad = {each.path for each in read_list(new_dir, Quarantined)}
    came = new.keys() - old.keys()
    counts = {
        "new": len(came - was_bad),
        "repaired": len(came & was_bad),
        "gone": len(old.keys() - new.keys() - is_bad),
        "now unusable": len(old.keys() & is_bad),
        "changed": sum(old[path] != new[path] for path in old.keys() & new.keys()),
        "more in quarantine": len(is_bad - was_bad - old.keys()),
        "fewer in quarantine": len(was_bad - is_bad - new.keys()),
    }
    parts = [f"{count:,} {what}" for what, count in counts.items() if count]
    return ", ".join(parts) or "only the times or the names of files that are not stored"


def _read_ids(data_dir: str) -> dict[str, str]:
    """The content of each image, by its path."""
    ids: dict[str, str] = {}
    for rows in scan_index(data_dir, ["source", "record_id"]):
        ids |= dict(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))
    return ids
