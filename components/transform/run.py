"""Runs the analysis as one Beam job: the whole of it, without TFX."""

import json
import tempfile
from collections.abc import Callable

import apache_beam as beam
import tensorflow_transform.beam as tft_beam

from components import files
from components.dotted import load_object
from components.errors import UserError, find_user_error
from components.feeding.options import ViewOptions
from components.ingest.manifest import read_manifest
from components.transform.analysis import AnalyzeImages
from components.transform.options import TransformOptions
from components.transform.statistics import read_statistics

SUMMARY = "analysis.json"


def run_analysis(
    examples_dir: str,
    output_dir: str,
    view: ViewOptions,
    options: TransformOptions,
    make_pipeline: Callable[[], beam.Pipeline],
) -> dict:
    """Analyses a data set written by ingest.

    Args:
      examples_dir: the data set's folder, with its manifest.
      output_dir: where the transform graph and `analysis.json` are written.
      view: the model's input.
      options: of the analysis.
      make_pipeline: makes the Beam pipeline to run on.

    Returns:
      What `analysis.json` holds: the splits and records analysed, the view, and the statistics
      that the `preprocessing_fn` named.

    Raises:
      UserError: if the person who called can put it right.
    """
    shards, records = list_shards(examples_dir, options.analyze_splits)
    analysis = AnalyzeImages(
        shards,
        records,
        view,
        load_object(options.preprocessing_fn),
        options.batch_size,
        output_dir,
    )
    try:
        with (
            tempfile.TemporaryDirectory() as scratch,
            make_pipeline() as root,
            tft_beam.Context(temp_dir=scratch),
        ):
            root | "AnalyzeImages" >> analysis
    except Exception as error:
        raise find_user_error(error) or error from error
    return _write_summary(output_dir, records, view, options)


def list_shards(examples_dir: str, splits: tuple[str, ...]) -> tuple[list[str], int]:
    """The shards of some splits, and how many records they hold by the manifest.

    Raises:
      UserError: if the data set has no such split.
    """
    known = read_manifest(examples_dir)["splits"]
    if missing := [split for split in splits if split not in known]:
        raise UserError(
            f"transform.analyze_splits names {missing}, but the data set has {list(known)}; "
            "name one of those, or add it to ingest.splits."
        )
    shards = [
        files.join(examples_dir, shard["file"]) for s in splits for shard in known[s]["shards"]
    ]
    return shards, sum(known[split]["records"] for split in splits)


def _write_summary(
    output_dir: str, records: int, view: ViewOptions, options: TransformOptions
) -> dict:
    statistics = read_statistics(output_dir)
    summary = {
        "splits": options.analyze_splits,
        "records": records,
        "preprocessing_fn": options.preprocessing_fn,
        "view": view.model_dump(mode="json"),
        "statistics": {name: value.tolist() for name, value in statistics.items()},
    }
    with files.write_atomically(files.join(output_dir, SUMMARY)) as file:
        file.write(json.dumps(summary, indent=1).encode() + b"\n")
    return summary
