"""What a run found, made and measured: gathered from the components' outputs, on one screen."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.facts import Evaluation, read_evaluation
from image_pipeline.components.feeding.analysis import read_content
from image_pipeline.components.json_files import read_json
from image_pipeline.components.json_text import JSON_VERSION
from image_pipeline.components.training.history import (
    HISTORY_FILE,
    PROFILE_FILE,
    read_history,
)
from image_pipeline.run_folder import MODEL_RUN, OUTPUTS
from image_pipeline.show.evaluation import evaluation_rows, say_next, say_refusal
from image_pipeline.show.ingest_summary import ingest_rows, summarize_data_set
from image_pipeline.show.terminal import print_line, print_profile, print_rows
from image_pipeline.show.words import (
    format_classes,
    format_constant_channels,
    format_count,
    format_mask_classes,
    format_numbers,
    format_unknown_classes,
)
from image_pipeline.tfx_metadata import SPAN_RESOLVER, ComponentRun

# What `analysis.json` has of images with masks, boxes, tags or values.
_OF_OTHERS = ("mask_classes", "mask_pixels", "box_classes", "box_counts", "label")


def summarize_run(runs: Sequence[ComponentRun], log_path: str) -> dict[str, Any]:
    """Gathers the results of a run.

    Returns:
      A dict for `json.dumps` and for `print_summary`. For a part of the pipeline, it lacks what no
      component has an output for (see `is_whole`).
    """
    outputs = {run.name: run.outputs for run in runs}
    # The spans that the model is made from; TFX's 0 if the images have none.
    spans = {run.name: run.spans for run in runs}
    results: dict[str, Any] = {
        "spans": list(spans.get(SPAN_RESOLVER) or spans.get("ImageExampleGen") or ())
    }
    if own := outputs.get("ImageExampleGen"):
        results["ingest"] = summarize_data_set(own["examples"])
    if own := outputs.get("ImageTransform"):
        analysis = read_content(own["transform_graph"])
        names = ("statistics", "constant_channels", "classes", "unknown_classes")
        results |= {name: analysis[name] for name in names}
        results |= {name: analysis[name] for name in _OF_OTHERS if name in analysis}
    if own := outputs.get("Trainer"):
        results |= _gather_training(own[MODEL_RUN])
    if own := outputs.get("Evaluator"):
        found = read_evaluation(own["evaluation"])
        # Without the facts of single records, which are many.
        facts = found.model_dump(exclude={"answers"})
        results |= {"evaluation": facts, "blessed": found.blessed}
    return {
        "version": JSON_VERSION,
        **results,
        "components": [
            {
                "name": run.name,
                "seconds": round(run.seconds, 1),
                "peak_rss_mb": round(run.peak_rss_mb),
                "reused": run.reused,
                "why": run.why,
            }
            for run in runs
        ],
        "paths": {
            **{
                name: outputs[component][output]
                for name, (component, output) in OUTPUTS.items()
                if component in outputs
            },
            "pushed_model": next((run.pushed_dir for run in runs if run.pushed_dir), None),
            "log": log_path,
        },
    }


def is_whole(summary: dict[str, Any]) -> bool:
    """Whether a summary describes a whole run, from the images to an evaluated model."""
    return {"ingest", "statistics", "training", "blessed"} <= summary.keys()


def _gather_training(model_run: str) -> dict[str, Any]:
    """The results that training wrote to its folder."""
    way_out = "run again from the Trainer on"
    if (history := read_history(model_run)) is None:
        raise UserError(
            f"{model_run!r} must have {HISTORY_FILE}, which training writes; {way_out}."
        )
    wait = history.input_wait
    training = {
        "epochs": history.epochs,
        "steps": history.steps,
        "metrics": {name: values[-1] for name, values in history.metrics.items()},
        "input_wait": None if wait is None else dataclasses.asdict(wait),
        "unknown_records": history.unknown_records,
        "softmax_added": history.softmax_added,
        "started_from": history.started_from,
        "random_steps": history.random_steps,
        "noticed": list(history.noticed),
        "best_epoch": None if history.best_epoch is None else history.best_epoch + 1,
    }
    try:
        profile = read_json(files.join(model_run, PROFILE_FILE), dict[str, Any], way_out)
        return {"training": training, "profile": profile}
    except FileNotFoundError:
        return {"training": training}


def print_summary(summary: dict[str, Any], console: Console) -> None:
    """Prints a run's results."""
    spans, rows = summary["spans"], []
    if len(spans) > 1:
        named = f"{', '.join(map(str, spans))}; the run was for {spans[-1]}"
        rows.append(("spans", f"{named}, which the lines below describe"))
    elif any(spans):
        rows.append(("span", f"{spans[0]}"))
    of_model = _model_rows(summary)
    if "ingest" in summary:
        # What the analysis says of tags and masks is of those that the model is trained on.
        names = {name for name, _ in of_model}
        rows += [row for row in ingest_rows(summary["ingest"]) if row[0] not in names]
    console.print()
    print_rows([*rows, *of_model], console)
    paths = [(name.replace("_", " "), path) for name, path in summary["paths"].items() if path]
    print_rows(paths, console, style="dim")
    if profile := summary.get("profile"):
        print_profile(profile, console)
    if summary.get("blessed") is False:
        found = Evaluation.model_validate(summary["evaluation"])
        print_line(say_refusal(found, summary["paths"].get("model")), console)
        print_line(f"{say_next(found)}. The report shows where it is wrong.", console)


def _model_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What the analysis, training and evaluation found."""
    rows = [(name, format_numbers(value)) for name, value in summary.get("statistics", {}).items()]
    if constant := summary.get("constant_channels"):
        rows.append(("constant channels", format_constant_channels(constant)))
    kind = "tags" if summary.get("label") == record.TAGS else "classes"
    if names := summary.get("mask_classes"):
        rows.append(("mask classes", format_mask_classes(names, summary["mask_pixels"])))
    elif classes := summary.get("classes"):
        rows.append((kind, format_classes(classes)))
    if unknown := summary.get("unknown_classes"):
        rows.append((f"unknown {kind}", format_unknown_classes(unknown, kind == "tags")))
    if training := summary.get("training"):
        counts = (training["steps"], "step"), (training["epochs"], "epoch")
        rows.append(("training", ", ".join(format_count(*each) for each in counts)))
        if (steps := training.get("random_steps")) is not None:
            rows.append(("random steps", ", ".join(step["op"] for step in steps) or "none"))
        if start := training.get("started_from"):
            rows.append(("started from", start))
        if best := training.get("best_epoch"):
            rows.append(("best epoch", f"{best}, by early stopping's figure"))
        left_out = (training.get("unknown_records") or {}).items()
        if text := ", ".join(f"{count:,} of {split}" for split, count in left_out if count):
            rows.append(("records without a class", f"{text}: left out"))
        if training.get("softmax_added"):
            rows.append(("model's output", "logits; the exported model adds a softmax"))
        rows += [("look at", sentence) for sentence in training.get("noticed", ())]
        if wait := training.get("input_wait"):
            rows.append(("waited for input", f"{wait['share']:.1%} of training's time"))
    if evaluation := summary.get("evaluation"):
        found = Evaluation.model_validate(evaluation)
        rows += evaluation_rows(found, summary["paths"].get("evaluation"))
    return rows
