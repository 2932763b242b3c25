"""What a run found, made and measured: gathered from the components' outputs, shown in a screen."""

import json
import os
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from components import files
from components.ingest.manifest import read_manifest
from pipeline.ingest_summary import ingest_rows, summarize_manifest
from pipeline.local import ComponentRun, pushed_dir
from pipeline.rows import format_classes, format_constant_channels, format_numbers, print_rows

# TFMA's names of the metrics in `components.training.evaluation`, as people say them.
_SHORT = {"sparse_categorical_accuracy": "accuracy", "example_count": "records"}


def summarize_run(runs: Sequence[ComponentRun], output_dir: str, log_path: str) -> dict[str, Any]:
    """Gathers the results of a run.

    Args:
      runs: every component's run.
      output_dir: the run's folder.
      log_path: where the libraries' messages are.

    Returns:
      A dict that `json.dumps` takes, for machines and for `print_summary`.
    """
    outputs = {run.name: run.outputs for run in runs}
    analysis = _read_json(outputs["ImageTransform"]["transform_graph"], "analysis.json")
    history = _read_json(outputs["Trainer"]["model_run"], "history.json")
    blessed = os.path.exists(files.join(outputs["Evaluator"]["blessing"], "BLESSED"))
    return {
        "ingest": summarize_manifest(read_manifest(outputs["ImageExampleGen"]["examples"])),
        **{name: analysis[name] for name in ("statistics", "constant_channels", "classes")},
        "training": {
            "epochs": len(history["seconds_per_epoch"]),
            "steps": history["steps_per_epoch"] * len(history["seconds_per_epoch"]),
            "metrics": {name: values[-1] for name, values in history["metrics"].items()},
        },
        "evaluation": _read_evaluation(outputs["Evaluator"]["evaluation"]),
        "blessed": blessed,
        "components": [
            {
                "name": run.name,
                "seconds": round(run.seconds, 1),
                "peak_rss_mb": round(run.peak_rss_mb),
                "reused": run.reused,
            }
            for run in runs
        ],
        "paths": {
            "examples": outputs["ImageExampleGen"]["examples"],
            "statistics": outputs["StatisticsGen"]["statistics"],
            "schema": outputs["SchemaGen"]["schema"],
            "anomalies": outputs["ExampleValidator"]["anomalies"],
            "transform_graph": outputs["ImageTransform"]["transform_graph"],
            "model": outputs["Trainer"]["model"],
            "evaluation": outputs["Evaluator"]["evaluation"],
            "pushed_model": newest_version(pushed_dir(output_dir)) if blessed else None,
            "log": log_path,
        },
    }


def print_summary(summary: dict[str, Any], console: Console) -> None:
    """Shows a run's results to a person."""
    console.print()
    print_rows([*ingest_rows(summary["ingest"]), *_model_rows(summary)], console)
    paths = [(name.replace("_", " "), path) for name, path in summary["paths"].items() if path]
    print_rows(paths, console, style="dim")


def _model_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    training, evaluation = summary["training"], summary["evaluation"]
    rows = [(name, format_numbers(value)) for name, value in summary["statistics"].items()]
    if constant := summary["constant_channels"]:
        rows.append(("constant channels", format_constant_channels(constant)))
    if classes := summary["classes"]:
        rows.append(("classes", format_classes(classes)))
    rows.append(("training", f"{training['steps']:,} steps, {training['epochs']:,} epochs"))
    rows += [(f"eval {name}", f"{value:,.4g}") for name, value in evaluation["overall"].items()]
    if worst := evaluation["worst_class"]:
        rows.append(("weakest class", f"{worst['class']}, accuracy {worst['accuracy']:.4g}"))
    rows.append(("model", "blessed" if summary["blessed"] else "not blessed, so not pushed"))
    return rows


def _read_json(folder: str, name: str) -> Any:
    with files.open_input(files.join(folder, name)) as file:
        return json.loads(file.read())


def _read_evaluation(evaluation_dir: str) -> dict[str, Any]:
    """The metrics over all records, and the class with the lowest accuracy."""
    import tensorflow_model_analysis as tfma

    result = tfma.load_eval_result(evaluation_dir)
    overall, classes = {}, {}
    for key, metrics in result.slicing_metrics:
        values = {
            _SHORT.get(name, name): value["doubleValue"]
            for name, value in metrics[""][""].items()
            if "doubleValue" in value
        }
        if not key:
            overall = values
        else:
            classes[key[0][1]] = values["accuracy"]
    worst = min(classes, key=lambda name: (classes[name], name), default=None)
    return {
        "overall": overall,
        "classes": classes,
        "worst_class": worst and {"class": worst, "accuracy": classes[worst]},
    }


def newest_version(push_dir: str) -> str | None:
    """The model pushed last: servers' custom is a folder a version, named by a number."""
    versions = [name for name in os.listdir(push_dir) if name.isdigit()]
    return files.join(push_dir, max(versions, key=int)) if versions else None
