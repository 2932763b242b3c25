"""Ingest alone, without TFX: the same code and the same bytes as in the pipeline."""

import time
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from rich.console import Console

from image_pipeline.components import files
from image_pipeline.components.beam.flags import parse_flags, reject_flags
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.paths import WORK
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.retry import retry_work_dir
from image_pipeline.components.ingest.run import run_ingest, run_retry
from image_pipeline.components.locks import hold_lock
from image_pipeline.components.meaning.listing import Listing
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.run.engine import make_paths_absolute
from image_pipeline.run.source_note import check_same_source, read_source, write_source
from image_pipeline.run.used_memory import watch_memory
from image_pipeline.show.ingest_summary import ingest_rows, summarize_data_set
from image_pipeline.show.terminal import print_rows


def ingest_folder(
    listing: Listing, output_dir: str, beam_args: Sequence[str], replace: bool = False
) -> dict[str, Any]:
    """Ingests a folder of images into an output folder.

    Returns:
      The summary: the books, splits, shards, bytes, seconds, peak memory, what was noticed, and how
      many records the data set had before (None if it did not exist).
    """
    (output_dir,) = make_paths_absolute(beam_args, output_dir)
    started = time.monotonic()
    with hold_lock(output_dir) as check_lock, watch_memory() as memory:
        try:
            before = read_manifest(output_dir).books.written
        except (FileNotFoundError, UserError):  # There is none, or its manifest is damaged.
            before = None
        if not replace:
            check_same_source(output_dir, listing)
        manifest = run_ingest(
            listing.images,
            output_dir,
            files.join(output_dir, WORK),
            listing.options,
            lambda: make_beam_pipeline(beam_args),
            listing,
        )
        check_lock()
        write_source(output_dir, listing.images, manifest)
    return summarize_data_set(output_dir) | {
        "noticed": list(listing.noticed),
        "written_before": before,
        "seconds": round(time.monotonic() - started, 1),
        "peak_rss_mb": round(memory.peak_rss_mb),
    }


def make_beam_pipeline(beam_args: Sequence[str]) -> beam.Pipeline:
    """An empty Beam pipeline.

    Raises:
      UserError: in Beam's words, if it rejects them.
    """
    try:
        return beam.Pipeline(options=parse_flags(beam_args))
    except ValueError as error:
        raise reject_flags(error) from error


def print_ingest(summary: dict[str, Any], output_dir: str, console: Console) -> None:
    """Prints an ingest's results."""
    took = f"{summary['seconds']} s, {summary['peak_rss_mb']:,} MB peak"
    print_rows([*ingest_rows(summary), ("took", took), ("data set", output_dir)], console)


def retry_folder(
    images_dir: str, output_dir: str, options: IngestOptions | None, beam_args: Sequence[str]
) -> dict[str, Any]:
    """Adds the quarantined files of a data set that have been repaired.

    Args:
      images_dir: the folder of images, or its URI.
      output_dir: the data set's folder.
      options: of ingest; None takes those of the data set.
      beam_args: Beam flags; they name the runner and its mode.

    Returns:
      What became of them (see `retry.Retry`), and the summary of the data set.
    """
    images_dir, output_dir = make_paths_absolute(beam_args, images_dir, output_dir)
    with hold_lock(output_dir) as check_lock:
        try:
            source = read_source(output_dir, read_manifest(output_dir)) or images_dir
        except FileNotFoundError:  # An interrupted retry continues.
            source = images_dir
        retry = run_retry(
            images_dir,
            output_dir,
            retry_work_dir(output_dir),
            options,
            lambda: make_beam_pipeline(beam_args),
        )
        manifest = read_manifest(output_dir)
        if retry.changed:
            check_lock()
            write_source(output_dir, source, manifest)
    counted = ("quarantined", "repaired", "still_bad", "gone")
    return {
        "retried": {name: getattr(retry, name) for name in counted},
        "changed": retry.changed,
        **summarize_data_set(output_dir),
    }


def print_retry(summary: dict[str, Any], console: Console) -> None:
    """Prints what became of the quarantined files."""
    retried = summary["retried"]
    rows = [(name.replace("_", " "), f"{count:,}") for name, count in retried.items()]
    print_rows(rows, console)
    if summary["changed"]:
        print_rows(ingest_rows(summary), console)
    else:
        console.print("No file has been repaired; the data set is unchanged.")
