"""Cross-validation: a model a fold, each judged by the images that it has not seen."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.intervals import LEVEL
from image_pipeline.components.labels.kinds import CLASSES
from image_pipeline.components.meaning.listing import Listing
from image_pipeline.components.messages import show
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training.early_stopping import is_error
from image_pipeline.components.training.history import VALIDATED, read_history
from image_pipeline.config import PipelineConfig
from image_pipeline.run.analysis import analyze_folder
from image_pipeline.run.ingest import ingest_folder
from image_pipeline.run.train import train_folder

DATA, GRAPH = "data", "graph"
_NAMED = 3


def cross_validate(
    config: PipelineConfig,
    listing: Listing,
    output_dir: str,
    folds: int,
    beam_args: Sequence[str],
    start: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """Trains as many models as there are folds, and tells how far apart they are.

    The folds are splits of one data set: copies and groups share one, and each has its share of
    every class. A fold's model, and its graph, are made of all others. What was interrupted goes
    on if it is called again.

    Args:
      config: of the run; `ingest.splits` and `transform.analyze_splits` are not read.
      listing: of the images.
      output_dir: gets the data set in `data`, and a folder `fold_1`, … with a graph and a model.
      folds: how many; 2 to 20.
      beam_args: Beam flags; they name the runner and its mode.
      start: told what begins.

    Returns:
      `data_set`; `folds`, each fold's figures after its last (or best) epoch, by name; `figures`,
      of each their `mean`, and its 95 % interval, `low` and `high`.

    Raises:
      UserError: if the images have splits of their own or are fewer than the folds, or a stage
        cannot be done.
    """
    names = [f"fold_{number + 1}" for number in range(folds)]
    listing = _divide(listing, names)
    data_dir = files.join(output_dir, DATA)
    start("ingest")
    ingest_folder(listing, data_dir, beam_args)
    splits = read_manifest(data_dir).splits
    found, judged = [], 0
    for name in names:
        others = tuple(other for other in names if other != name)
        folder = files.join(output_dir, name)
        graph_dir = files.join(folder, GRAPH)
        transform = config.transform.model_copy(update={"analyze_splits": others})
        start(f"{name} analysis")
        analyze_folder(data_dir, graph_dir, config.view, transform, beam_args)
        start(f"{name} training")
        train_folder(data_dir, graph_dir, folder, config, others, name)
        history = read_history(folder)
        figures = {} if history is None else history.validated
        found.append({name: value for name, value in figures.items() if value is not None})
        unknown = (history and history.unknown_records) or {}
        judged += splits[name].records - (unknown.get("eval") or 0)
    return {"data_set": data_dir, "folds": found, "figures": _summarize(found, judged)}


def notice(listing: Listing, training: TrainingOptions, folds: int) -> list[str]:
    """Tells what makes figures worse than they seem, a sentence each."""
    told = []
    stops = training.early_stopping_patience is not None
    if stops and training.early_stopping_monitor.startswith(VALIDATED):
        told.append(
            "training.early_stopping_patience chooses each fold's epoch by the images that then "
            "judge it, so all figures are somewhat too good; leave it out for figures that are not"
        )
    rare = {name: count for name, count in listing.classes.items() if count < folds}
    if not rare or listing.options.label_kind is not CLASSES:
        return told  # Folds have their shares of classes, not of tags or boxes.
    named = ", ".join(f"{show(name)} ({count})" for name, count in sorted(rare.items())[:_NAMED])
    more = f" and {len(rare) - _NAMED:,} more" if len(rare) > _NAMED else ""
    return [
        *told,
        f"classes of fewer images than {folds} folds are judged in some folds only, and one of a "
        f"single image in none, for no model has learned it there: {named}{more}",
    ]


def _divide(listing: Listing, names: Sequence[str]) -> Listing:
    options = listing.options
    has_column = options.columns.get("split") is not None
    if options.split_pattern is not None or has_column:
        what, way_out = "folder", "give it the folder of one split alone"
        if has_column:
            what, way_out = "a column", "leave it out by ingest.columns={split: null}"
        raise UserError(
            f"--folds divides images that have no splits of their own, but those of "
            f"{listing.images!r} have, by {what}; {way_out}, or leave --folds out."
        )
    if listing.kind.lists_images and listing.found < len(names):
        raise UserError(
            f"--folds={len(names)} divides the images of {listing.images!r} into as many parts, "
            f"but there are {listing.found}; give --folds={listing.found} at most, or more images."
        )
    shares = dict.fromkeys(names, 1 / len(names))
    stratify = options.stratify or True
    divided = options.model_copy(update={"splits": shares, "stratify": stratify})
    return dataclasses.replace(listing, options=divided)


def _summarize(found: Sequence[Mapping[str, float]], judged: int) -> dict[str, dict[str, float]]:
    """Of each figure that all folds have, the mean, and the ends of its interval.

    By Student's t; of shares by Wilson's interval with Student's quantile, for as many trials as
    would let folds differ as much as they do: it ends within 0 and 1. Folds that are all equal do
    not show how far chance might have moved them: theirs is Wilson's own, of all records.
    """
    figures = {}
    for name in found[0]:
        if not all(name in each for each in found):
            continue  # Of a fold without such records, it is not a number.
        values = np.array([each[name] for each in found])
        mean, error = float(values.mean()), float(stats.sem(values))
        quantile = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1))
        low, high = mean - quantile * error, mean + quantile * error
        if not is_error(name) and values.min() >= 0 and values.max() <= 1:
            trials = float(judged)
            if np.ptp(values):
                trials = mean * (1 - mean) / error**2
            else:
                quantile = float(stats.norm.ppf((1 + LEVEL) / 2))
            pulled = quantile**2 / trials
            middle = (mean + pulled / 2) / (1 + pulled)
            apart = math.sqrt(mean * (1 - mean) * pulled + pulled**2 / 4) / (1 + pulled)
            low, high = max(0.0, middle - apart), min(1.0, middle + apart)
        figures[name] = {"mean": mean, "low": low, "high": high}
    return figures
