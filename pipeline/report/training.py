"""What a run's components said: anomalies, training's history, versions of code and options."""

import hashlib
import importlib.metadata
from typing import Any

import yaml

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import hash_manifest
from image_pipeline.components.dataset.paths import in_split, parse_split
from image_pipeline.config import PipelineConfig
from image_pipeline.report.source import ReportSource, read_analysis

_VALIDATION = "val_"


def describe_training(history: dict[str, Any]) -> dict[str, Any]:
    """Training epoch by epoch.

    Args:
      history: as `components.training.trainer.write_history` wrote it.

    Returns:
      `epochs`, `steps` (in all), `seconds` (in all), `input_wait`: see `describe_wait`,
      `unknown_records` of each split, which loss and metrics leave out (None if nobody counted),
      `softmax_added`, and `curves`: for each metric its `name`, `train` and `eval` values (None
      without one; None as a value that was no number), and the `best_epoch` (from 1) of evaluation.
    """
    metrics = history["metrics"]
    seconds = history["seconds_per_epoch"]
    names = sorted({name.removeprefix(_VALIDATION) for name in metrics}, key=lambda n: n != "loss")
    return {
        "epochs": len(seconds),
        "steps": history["steps_per_epoch"] * len(seconds),
        "seconds": sum(seconds),
        "input_wait": describe_wait(history),
        "unknown_records": history.get("unknown_records"),
        "softmax_added": history.get("softmax_added", False),
        "curves": [
            {
                "name": name,
                "train": metrics.get(name),
                "eval": metrics.get(_VALIDATION + name),
                "best_epoch": _find_best(name, metrics.get(_VALIDATION + name)),
            }
            for name in names
        ],
    }


def describe_wait(history: dict[str, Any]) -> dict[str, Any] | None:
    """Which share of its time training's loop waited for its next batch, evaluation left out.

    Args:
      history: as `components.training.trainer.write_history` wrote it.

    Returns:
      `share`, of all epochs together; `worst_share` and `worst_epoch` (from 1), where it waited
      most. None if it was not measured.
    """
    waits = history.get("input_wait_seconds_per_epoch")
    loops = history.get("training_seconds_per_epoch", [])
    if waits is None or not sum(loops):
        return None
    shares = [wait / loop if loop else 0.0 for wait, loop in zip(waits, loops, strict=True)]
    worst = max(shares)
    return {
        "share": sum(waits) / sum(loops),
        "worst_share": worst,
        "worst_epoch": shares.index(worst) + 1,
    }


def read_anomalies(folder: str) -> list[dict[str, Any]]:
    """What TFDV found of each split that does not fit the schema, in its words.

    Args:
      folder: of the ExampleValidator's artifact.

    Returns:
      For each split its name and `anomalies`: pairs of a column and a description.
    """
    from tensorflow_metadata.proto.v0 import anomalies_pb2

    described = []
    for path in sorted(files.list_files(folder, in_split("*", "SchemaDiff.pb"))):
        with files.open_input(path) as file:
            found = anomalies_pb2.Anomalies.FromString(file.read())
        rows = [
            (name or "the data set", f"{info.short_description}: {info.description}")
            for name, info in sorted(found.anomaly_info.items())
        ]
        if found.dataset_anomaly_info.description:
            info = found.dataset_anomaly_info
            rows.insert(0, ("the data set", f"{info.short_description}: {info.description}"))
        described.append({"split": parse_split(path), "anomalies": rows})
    return described


def describe_versions(source: ReportSource, config: PipelineConfig | None) -> dict[str, Any]:
    """What made the data set and the model.

    Returns:
      `rows`: pairs of a name and a text; `options`: pairs of a title and a text in YAML.
    """
    rows = [
        ("report by", f"image-pipeline {importlib.metadata.version('image-pipeline')}"),
        ("format version", str(source.manifest.format_version)),
        ("manifest", f"sha256 {hash_manifest(source.data_dir)}"),
    ]
    options = [("ingest", _to_yaml(source.manifest.options))]
    if analysis := read_analysis(source):
        function = f"{analysis['preprocessing_fn']} (source {analysis['function_version']})"
        rows += [("analysis code", analysis["code_version"]), ("preprocessing_fn", function)]
    if config is not None:
        stored = config.model_dump(mode="json", include={"view", "feeding", "training"})
        text = _to_yaml(stored)
        rows.append(("training options", f"sha256 {hashlib.sha256(text.encode()).hexdigest()}"))
        options += [(name, _to_yaml(group)) for name, group in stored.items()]
    return {"rows": rows, "options": options}


def _find_best(name: str, values: list[float | None] | None) -> int | None:
    """The epoch, from 1, with the least loss or the greatest metric; the first of equal ones."""
    numbers = [value for value in values or [] if value is not None]
    if not values or not numbers:
        return None
    best = min(numbers) if "loss" in name or "error" in name else max(numbers)
    return values.index(best) + 1


def _to_yaml(options: Any) -> str:
    return yaml.safe_dump(options, sort_keys=False, allow_unicode=True)
