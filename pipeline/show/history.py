"""The runs of a folder as text and as JSON: what each made again and why, and what came of it."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.dataset.other_records import explain_version_name
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.facts import read_evaluation
from image_pipeline.components.names import printable_text
from image_pipeline.history.past_runs import PastRun, Step, read_runs
from image_pipeline.history.reasons import (
    FIRST,
    explain_step,
    format_time,
    join_reasons,
    list_changes,
)
from image_pipeline.run_folder import METADATA, RunFolder
from image_pipeline.show.words import format_measured, format_seconds
from image_pipeline.tfx_metadata import check_metadata

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
            explain_version_name(folder)
            or f"{folder!r} must be the local output folder of `image-pipeline run`, but it has no "
            f"{METADATA}; name that folder."
        )
    check_metadata(run_folder.metadata_path, run_folder.artifacts_dir)
    return describe_runs(run_folder, read_runs(run_folder.metadata_path))


def describe_runs(folder: RunFolder, runs: Sequence[PastRun]) -> list[dict[str, Any]]:
    """What is known of each run, for machines; the latest run comes first."""
    number_of = {step.id: run.number for run in runs for step in run.steps if step.state == "made"}
    described = []
    for run in reversed(runs):
        first, last = run.steps[0], run.steps[-1]
        steps = [step for step in run.steps if _LEFT_OUT not in step.component]
        described.append(
            {
                "run": run.number,
                "pipeline": run.pipeline,
                "started": format_time(first.started_ms),
                "seconds": round((last.ended_ms - first.started_ms) / 1000, 1),
                "changes": list_changes(runs, run),
                "steps": [
                    {
                        "component": step.component,
                        "state": step.state,
                        "made_in_run": number_of.get(step.made_by),
                        "reasons": explain_step(runs, step),
                        "outputs": {
                            name: [each.uri for each in own] for name, own in step.outputs.items()
                        },
                    }
                    for step in steps
                ],
                **_describe_model(folder, {step.component: step for step in steps}),
            }
        )
    return described


def _describe_model(folder: RunFolder, steps: Mapping[str, Step]) -> dict[str, Any]:
    """What the run's model was found to be worth, and where it went."""
    outcome: dict[str, Any] = {}
    if (evaluator := steps.get("Evaluator")) and evaluator.is_done:
        outcome["score"] = None
        for each in evaluator.outputs.get("evaluation", ()):
            try:
                found = read_evaluation(folder.relocate(each.uri))
                outcome["score"] = {"measure": found.measure, **dataclasses.asdict(found.score)}
            except UserError as error:
                outcome["no_score"] = str(error)
        blessings = evaluator.outputs.get("blessing", ())
        outcome["blessed"] = any(each.noted.get("blessed") for each in blessings)
    if (pusher := steps.get("Pusher")) and pusher.is_done:
        outcome["pushed_to"] = pusher.pushed_to
    return outcome


def history_lines(described: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The same for people."""
    for run in described:
        yield f"run {run['run']}, {run['started']}, {format_seconds(run['seconds'])}"
        for change in run["changes"]:
            yield f"  changed           {printable_text(change)}"
        for step in run["steps"]:
            yield f"  {step['component']:<18}{printable_text(say_step(step))}"
        if "blessed" in run:
            yield f"  model             {say_model(run)}"
        # The runs that made what the run's model comes from.
        made = {step["component"]: step["made_in_run"] for step in run["steps"]}
        known = [name for name in _FROM if made.get(name) is not None]
        if "Trainer" in known:
            lineage = ", ".join(f"{name} of run {made[name]}" for name in known)
            yield f"  made from         {lineage}"
        yield ""


def say_step(step: Mapping[str, Any]) -> str:
    """What became of a step."""
    if step["state"] == "made":
        first = step["reasons"] == [FIRST]
        return "made" if first else f"made again: {join_reasons(step['reasons'])}"
    if step["state"] == "reused":
        return f"reused from run {step['made_in_run']}"
    return {"failed": "failed", "unfinished": "not finished"}[step["state"]]


def say_model(run: Mapping[str, Any]) -> str:
    """The metric that a run's model was judged by, the verdict, and where it was pushed."""
    score, text = run["score"], "no score"
    if score is not None and score["value"] is not None:
        interval = None if score["low"] is None else (score["low"], score["high"])
        text = f"{score['measure']} {format_measured(score['value'], interval)}"
    verdict = "blessed" if run["blessed"] else "not blessed"
    pushed = f", pushed to {run['pushed_to']}" if run.get("pushed_to") else ", not pushed"
    why = f": {run['no_score']}" if "no_score" in run else ""
    return f"{text}, {verdict}{pushed}{why}"
