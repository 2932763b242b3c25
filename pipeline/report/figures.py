"""Gathers every figure of a report, with a line for each that the data set or run lacks."""

from typing import Any

from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import read_vocabulary
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.labels.kinds import MASKS, find_kind
from image_pipeline.config import PipelineConfig
from image_pipeline.named_folder import Source
from image_pipeline.report.box_table import describe_boxes
from image_pipeline.report.classes import (
    choose_samples,
    describe_books,
    describe_classes,
    describe_masks,
    describe_shards,
)
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.difference import compare
from image_pipeline.report.evaluation import Predictions, describe_metrics, describe_predictions
from image_pipeline.report.leakage import check_leakage
from image_pipeline.report.look_alikes import find_look_alikes
from image_pipeline.report.misses import list_misses
from image_pipeline.report.notices import list_notices
from image_pipeline.report.outliers import Outliers, find_outliers, read_outliers
from image_pipeline.report.pixels import describe_pixels, measure_images
from image_pipeline.report.problems import (
    describe_duplicates,
    describe_near_duplicates,
    describe_quarantine,
)
from image_pipeline.report.shapes import describe_shapes
from image_pipeline.report.shuffle import ShuffleFigures, describe_shuffle
from image_pipeline.report.tag_table import describe_tags
from image_pipeline.report.training import describe_training, describe_versions, read_anomalies
from image_pipeline.report.value_table import describe_values
from image_pipeline.report.verdict import describe_verdict
from image_pipeline.run_config import read_config
from image_pipeline.show import own_figures
from image_pipeline.show.evaluation_rows import WEAK

_MOST_MISLABELLED = 24
_NOT_A_RUN = "Only the report of a run has this; this is the report of a data set alone."
_NOT_ENDED = "The run has no summary.json: it did not finish, or not with its last component."


def gather_figures(source: Source, data: DataSet, other: Source | None = None) -> dict[str, Any]:
    """Computes everything that a report shows, except pictures.

    Args:
      source: the report's subject.
      data: its data set.
      other: what it is compared with.

    Returns:
      A dict for `to_json`: a figure for each section, None for one without data, and `absent`: why,
      by the section's name. Images are named by their `row` of the index.
    """
    absent: dict[str, str] = {}
    config = _read_config(source, absent)
    figures = {
        "folder": source.folder,
        "kind": "data set" if source.run is None else "run",
        **_describe_data(source, data),
        "shuffle": _describe_shuffle(data, config, absent),
        **_describe_run(source, data, absent),
        "versions": describe_versions(source, config),
        "difference": None if other is None else compare(source, other),
        "absent": absent,
    }
    if other is None:
        absent["difference"] = "Nothing to compare with; give --against OTHER to see what changed."
    return figures | {"notices": list_notices(figures)}


def _describe_data(source: Source, data: DataSet) -> dict[str, Any]:
    manifest, data_dir = source.manifest, source.data_dir
    looked_for = manifest.books.near_duplicates is not None
    tried = measure_images(data)
    measured = [each for each in tried if each is not None]
    alike = (
        describe_near_duplicates(data_dir, data) if looked_for else find_look_alikes(measured, data)
    )
    return {
        "understood": list(manifest.options.get("understood", ())),
        "books": describe_books(manifest),
        "classes": describe_classes(manifest.books.classes),
        **describe_masks(manifest),
        **describe_tags(data),
        **describe_values(data),
        **describe_boxes(manifest, data),
        "shapes": describe_shapes(data),
        "pixels": describe_pixels(data, tried),
        "samples": choose_samples(data),
        "quarantine": describe_quarantine(data_dir, manifest.books.quarantine_reasons),
        "duplicates": describe_duplicates(data_dir, data),
        "near_duplicates": alike,
        "outliers": _read_outliers(source, data) or find_outliers(measured, data),
        "leakage": check_leakage(data_dir, manifest, data, alike),
        "shards": describe_shards(manifest),
    }


def _read_outliers(source: Source, data: DataSet) -> Outliers | None:
    """The outliers as the run's model sees them; None if its evaluation did not look for them."""
    folder = source.artifact("evaluation")
    told = None if folder is None else (own_figures.read_figures(folder) or {}).get("outliers")
    if folder is None or told is None:
        return None
    return read_outliers(own_figures.read_outliers(folder), told, data)


def _read_config(source: Source, absent: dict[str, str]) -> PipelineConfig | None:
    if source.run is None:
        return None
    try:
        return read_config(source)
    except UserError as error:
        absent["options"] = f"The run's options are not known: {error}"
        return None


def _describe_shuffle(
    data: DataSet, config: PipelineConfig | None, absent: dict[str, str]
) -> ShuffleFigures | None:
    feeding, seed = FeedingOptions(), 0
    if config is not None:
        feeding, seed = config.feeding, config.training.seed
    try:
        described = describe_shuffle(data, feeding, seed)
    except UserError as error:
        absent["shuffle"] = str(error)
        return None
    if described is None:
        absent["shuffle"] = "There are fewer than two records to train on."
    return described


def _describe_run(source: Source, data: DataSet, absent: dict[str, str]) -> dict[str, Any]:
    names = ("verdict", "anomalies", "training", "metrics", "predictions", "statistics")
    summary = source.summary
    if summary is None:
        reason = _NOT_A_RUN if source.run is None else _NOT_ENDED
        absent |= dict.fromkeys(names, reason)
        absent["mislabelled"] = reason
        return dict.fromkeys(names) | {"mislabelled": [], "judged_labels": None, "doubted": None}
    history = source.read_history()
    if history is None:
        absent["training"] = "The run's history.json is missing."
    anomalies_dir = source.artifact("anomalies")
    metrics = describe_metrics(summary, _count_eval(source.manifest, data))
    return {
        "verdict": describe_verdict(summary, metrics),
        "anomalies": read_anomalies(anomalies_dir) if anomalies_dir else None,
        "training": None if history is None else describe_training(history),
        "metrics": metrics,
        **_score(source, data, absent),
        **_list_mislabelled(source, data),
        "statistics": summary.get("statistics", {}),
    }


def _count_eval(manifest: Manifest, data: DataSet) -> dict[str, int]:
    """Records of each class in the eval split; masks: pixels; tags: images; or boxes."""
    others = (describe_tags(data) | describe_boxes(manifest, data)).values()
    for table in (*describe_masks(manifest).values(), *(each.table for each in others)):
        if "eval" in table.splits:
            number = table.splits.index("eval")
            return {row.name: row.counts[number] for row in table.rows}
    return manifest.books.classes.get("eval", {})


def _score(source: Source, data: DataSet, absent: dict[str, str]) -> dict[str, Any]:
    """`predictions` of classes; it is None for others, but tags and values have `misses`."""
    if (kind := find_kind(source.manifest.columns)).moves:
        how = "predicted pixel by pixel" if kind is MASKS else "matched box by box"
        absent["predictions"] = f"{kind.name.title()} are {how}; there is no list of records."
        return {"predictions": None}
    if source.manifest.label is None:
        return {"predictions": _describe_classes(source, data, absent)}
    model_dir = source.artifact("model")
    vocabulary = (source.graph_dir and read_vocabulary(source.graph_dir)) or []
    if model_dir is None or (data.values is None and not vocabulary):
        absent["predictions"] = "There is no model, or no vocabulary of its classes."
        return {"predictions": None}
    try:
        misses = list_misses(data, f"{model_dir}/Format-Serving", vocabulary)
        return {"predictions": None, "misses": misses}
    except (OSError, UserError) as error:
        absent["predictions"] = f"The model cannot be run over the eval split: {error}"
        return {"predictions": None}


def _describe_classes(source: Source, data: DataSet, absent: dict[str, str]) -> Predictions | None:
    evaluation_dir = source.artifact("evaluation")
    own = None if evaluation_dir is None else own_figures.read_figures(evaluation_dir)
    if own is None:
        absent["predictions"] = "The run's Evaluator left no figures.json; run again from it on."
        return None
    if not own["records"]:
        absent["predictions"] = "No record of the eval split has a class that the model knows."
        return None
    return describe_predictions(own, data)


def _list_mislabelled(source: Source, data: DataSet) -> dict[str, Any]:
    """The first records whose label is in doubt, with their rows of the index."""
    evaluation_dir = source.artifact("evaluation")
    own = (evaluation_dir and own_figures.read_figures(evaluation_dir)) or {}
    told = own.get("mislabelled")
    if evaluation_dir is None or told is None:
        return {"mislabelled": [], "judged_labels": None, "doubted": None}
    rows = own_figures.read_mislabelled(evaluation_dir)[:_MOST_MISLABELLED]
    found = data.find_ids(each["record_id"] for each in rows)
    listed = [
        {**each, "row": found[each["record_id"]], "pair": _say_pair(each)}
        for each in rows
        if each["record_id"] in found
    ]
    judged = {**told, "is_weak": told["agreed"] < WEAK}
    return {"mislabelled": listed, "judged_labels": judged, "doubted": told["suspected"]}


def _say_pair(doubt: dict[str, Any]) -> str:
    return f"{doubt['label']}, rather {doubt['likelier']}"
