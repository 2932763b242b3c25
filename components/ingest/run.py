"""Runs ingest, and the retry of quarantined files, as Beam jobs without TFX."""

import dataclasses
from collections.abc import Callable

import apache_beam as beam

from image_pipeline.components import files
from image_pipeline.components.beam.job import run_job
from image_pipeline.components.dataset.manifest import Manifest, read_whole_manifest
from image_pipeline.components.ingest.counts import check_finished, start_counts
from image_pipeline.components.ingest.fence import hold_run
from image_pipeline.components.ingest.listed import keep_listing
from image_pipeline.components.ingest.retry import (
    Retry,
    check_not_in_place,
    choose_options,
    count_written,
    is_interrupted,
    prepare_quarantined,
    read_marker,
)
from image_pipeline.components.ingest.transforms import IngestImages, UnpackDataSet, WriteDataSet
from image_pipeline.components.meaning.listing import Listing, list_images
from image_pipeline.components.meaning.options import IngestOptions


def run_ingest(
    images_dir: str,
    output_dir: str,
    work_dir: str,
    options: IngestOptions,
    make_pipeline: Callable[[], beam.Pipeline],
    listing: Listing | None = None,
) -> Manifest:
    """Ingests a folder of images.

    Args:
      images_dir: the folder of images, or its URI.
      output_dir: the data set's folder; `docs/format.md` lists what it will hold.
      work_dir: the working folder; deleted in the end, kept after a failure.
      make_pipeline: makes the Beam pipeline to run on.
      listing: of these images, with these options, if it was made already.

    Returns:
      The manifest.

    Raises:
      UserError: if the person who called can put it right.
      RuntimeError: if a stage lost what entered it; the message names the stage.
    """
    start_counts(work_dir)
    with hold_run(work_dir) as run:
        listing = listing or list_images(images_dir, options)
        keep_listing(listing, work_dir, run)
        ingest = IngestImages(images_dir, output_dir, work_dir, listing.options, run)
        with run_job(make_pipeline(), work_dir) as root:
            root | "Ingest" >> ingest
        manifest = check_finished(work_dir)
        files.delete_tree(work_dir)
    return manifest


def run_retry(
    images_dir: str,
    output_dir: str,
    work_dir: str,
    options: IngestOptions | None,
    make_pipeline: Callable[[], beam.Pipeline],
) -> Retry:
    """Adds those quarantined images to a data set that are usable by now; see `retry`.

    Args:
      images_dir: the folder of images, or its URI.
      output_dir: the data set's folder.
      work_dir: the working folder; deleted in the end, kept after a failure.
      options: the ones that the data set was written with; None takes them from its manifest.
      make_pipeline: makes a Beam pipeline to run on.

    Returns:
      What became of the quarantined files. If none is usable, nothing was changed.

    Raises:
      UserError: if the person who called can put it right.
      RuntimeError: if a stage lost what entered it; the message names the stage.
    """
    options = options and list_images(images_dir, options).options
    if not is_interrupted(output_dir, work_dir):
        files.delete_tree(work_dir)
        stored = read_whole_manifest(output_dir).options
        options = choose_options(stored, options)
        check_not_in_place(options)
        with hold_run(work_dir) as run:
            retried, retry = prepare_quarantined(images_dir, output_dir, work_dir, options)
            if not retry.repaired:
                files.delete_tree(work_dir)
                return retry
            unpack = UnpackDataSet(retried, retry, images_dir, output_dir, work_dir, options, run)
            with run_job(make_pipeline(), work_dir) as root:
                root | "Retry" >> unpack
    chunks, retry, stored = read_marker(work_dir)
    options = choose_options(stored, options)
    start_counts(work_dir)
    with hold_run(work_dir) as run:
        chunks = [dataclasses.replace(chunk, run=run) for chunk in chunks]
        with run_job(make_pipeline(), work_dir) as root:
            chunks_in_one = root | "Start" >> beam.Create([chunks])
            chunks_in_one | "WriteDataSet" >> WriteDataSet(output_dir, work_dir, options)
        check_finished(work_dir)
        files.delete_tree(work_dir)
    return count_written(retry, output_dir)
