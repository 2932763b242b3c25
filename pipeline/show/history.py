"""The runs of a folder as text and as JSON: what each made anew and why, and what came of it."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.facts import FACTS, read_evaluation
from image_pipeline.components.names import printable_text
from image_pipeline.history.past_runs import PastRun, Step, read_runs
from image_pipeline.history.reasons import (
    FIRST,
    explain_step,
    format_time,
    join_reasons,
    list_changes,
)
from image_pipeline.run.metadata_file import check_metadata
from image_pipeline.run_folder import METADATA, RunFolder

_FROM = ("Trainer", "ImageTransform", "ImageExampleGen")
_LEFT_OUT = "Resolver"  # They choose, and make nothing.


def read_past(folder: str) -> list[dict[str, Any]]:
    """What is known of each run of an output folder, the latest first.

    Raises:
      UserError: if it is none, or its metadata is damaged.
    """
    run_folder = RunFolder(folder)
    if not (files.is_local(folder) and files.exists(run_folder.metadata_path)):
        raise UserError(
            f"{folder!r} must be the local output folder of `image-pipeline run`, but it has no "
            f"{METADATA}; name that folder."
        )
    check_metadata(run_folder.metadata_path, run_folder.artifacts_dir)
    return describe_runs(run_folder, read_runs(run_folder.metadata_path))


def describe_runs(folder: RunFolder, runs: Sequence[PastRun]) -> list[dict[str, Any]]:
    """What is known of each run, for machines; the latest run comes first."""
    number_of = {step.id: run.number for run in runs for step in run.steps if step.state == "made"}
    return [_describe_run(folder, runs, run, number_of) for run in reversed(runs)]


def _describe_run(
    folder: RunFolder, runs: Sequence[PastRun], run: PastRun, number_of: Mapping[int, int]
) -> dict[str, Any]:
    steps = [step for step in run.steps if _LEFT_OUT not in step.component]
    return {
        "run": run.number,
        "pipeline": run.pipeline,
        "started": format_time(run.steps[0].started_ms),
        "seconds": round((run.steps[-1].ended_ms - run.steps[0].started_ms) / 1000, 1),
        "changes": list_changes(runs, run),
        "steps": [_describe_step(runs, step, number_of) for step in steps],
        **_describe_model(folder, {step.component: step for step in steps}),
    }


def _describe_step(
    runs: Sequence[PastRun], step: Step, number_of: Mapping[int, int]
) -> dict[str, Any]:
    return {
        "component": step.component,
        "state": step.state,
        "made_in_run": number_of.get(step.made_by),
        "reasons": explain_step(runs, step),
        "outputs": {name: [each.uri for each in own] for name, own in step.outputs.items()},
    }


def _describe_model(folder: RunFolder, steps: Mapping[str, Step]) -> dict[str, Any]:
    """What the run's model was found to be worth, and where it went."""
    told: dict[str, Any] = {}
    if (evaluator := steps.get("Evaluator")) and evaluator.is_done:
        evaluations = evaluator.outputs.get("evaluation", ())
        told["score"] = _read_score(folder.relocate(evaluations[0].uri)) if evaluations else None
        blessings = evaluator.outputs.get("blessing", ())
        told["blessed"] = any(each.noted.get("blessed") for each in blessings)
    if (pusher := steps.get("Pusher")) and pusher.is_done:
        pushed = [each.noted for own in pusher.outputs.values() for each in own]
        told["pushed_to"] = next(
            (each["pushed_destination"] for each in pushed if "pushed_destination" in each), None
        )
    return told


def history_lines(described: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The same for people."""
    for run in described:
        yield f"run {run['run']}, {run['started']}, {_say_seconds(run['seconds'])}"
        for change in run["changes"]:
            yield f"  changed           {printable_text(change)}"
        for step in run["steps"]:
            yield f"  {step['component']:<18}{printable_text(say_step(step))}"
        if "blessed" in run:
            yield f"  model             {say_model(run)}"
        if lineage := _say_lineage(run):
            yield f"  made from         {lineage}"
        yield ""


def _say_seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def say_step(step: Mapping[str, Any]) -> str:
    """What became of a step."""
    if step["state"] == "made":
        first = step["reasons"] == [FIRST]
        return "made" if first else f"made anew: {join_reasons(step['reasons'])}"
    if step["state"] == "reused":
        return f"reused from run {step['made_in_run']}"
    return {"failed": "failed", "unfinished": "not finished"}[step["state"]]


def say_model(run: Mapping[str, Any]) -> str:
    """The metric that a run's model was judged by, the verdict, and where it was pushed."""
    score, told = run["score"], "no score, as its evaluation is gone or of an earlier version"
    if score is not None and score["value"] is not None:
        ends = "" if score["low"] is None else f" ({score['low']:.3f} to {score['high']:.3f})"
        told = f"{score['measure']} {score['value']:.3f}{ends}"
    verdict = "blessed" if run["blessed"] else "not blessed"
    pushed = f", pushed to {run['pushed_to']}" if run.get("pushed_to") else ", not pushed"
    return f"{told}, {verdict}{pushed}"


def _say_lineage(run: Mapping[str, Any]) -> str:
    """The runs that made what the run's model comes from."""
    made = {step["component"]: step["made_in_run"] for step in run["steps"]}
    known = [name for name in _FROM if made.get(name) is not None]
    return ", ".join(f"{name} of run {made[name]}" for name in known) if "Trainer" in known else ""


def _read_score(evaluation_dir: str) -> dict[str, Any] | None:
    """The figure that a model was judged by; None of runs of earlier versions, or if it is gone."""
    if not files.exists(files.join(evaluation_dir, FACTS)):
        return None
    found = read_evaluation(evaluation_dir)
    return {"measure": found.measure, **dataclasses.asdict(found.score)}
