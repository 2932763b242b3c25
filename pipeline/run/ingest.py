"""Ingest alone, without TFX: the same code and the same bytes as in the pipeline."""

import contextlib
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from image_pipeline.components import files
from image_pipeline.components.dataset.changes import find_changes
from image_pipeline.components.dataset.manifest import has_manifest, read_manifest
from image_pipeline.components.dataset.paths import NEXT, WORK
from image_pipeline.components.dataset.versions import add_version, prune_versions
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.earlier import (
    Compare,
    count_taken,
    find_earlier,
    is_unchanged,
)
from image_pipeline.components.ingest.output import take_place
from image_pipeline.components.locks import hold_lock
from image_pipeline.components.meaning.listing import Listing
from image_pipeline.run.engine import make_paths_absolute
from image_pipeline.run.source_note import check_same_source, write_source
from image_pipeline.run.used_memory import watch_memory
from image_pipeline.show.ingest_summary import ingest_rows, summarize_data_set
from image_pipeline.show.terminal import print_rows


def ingest_folder(
    listing: Listing,
    output_dir: str,
    beam_args: Sequence[str],
    replace: bool = False,
    compare: Compare = "times",
    versions: int | None = None,
) -> dict[str, Any]:
    """Ingests a folder of images into an output folder.

    Of a data set that is there, images are taken that have not changed since; it stays whole until
    the new one is.

    Args:
      listing: of the images.
      output_dir: the data set's folder.
      beam_args: Beam flags; they name the runner and its mode.
      replace: whether a finished data set of other images or options may be replaced.
      compare: how images are compared with those of a data set that is there.
      versions: how many versions' indices are kept when they are replaced, from now on; None for as
        many as before, `versions.KEPT` at first.

    Returns:
      The summary: the books, splits, shards, bytes, seconds, peak memory, what was noticed, how
      many records the data set had before (None if it did not exist), how many images are of it,
      and what happened to the others (see `changes.KINDS`).
    """
    (output_dir,) = make_paths_absolute(beam_args, output_dir)
    started = time.monotonic()
    with hold_lock(output_dir) as check_lock, watch_memory() as memory:
        next_dir = files.join(output_dir, NEXT)
        take_place(output_dir)  # An ingest may have been stopped just before its end.
        known, changed = None, dict[str, int]()
        with contextlib.suppress(FileNotFoundError, UserError):  # There is none, or it is damaged.
            known = read_manifest(output_dir)
        if not replace:
            check_same_source(output_dir, listing)
        is_there = has_manifest(output_dir)
        earlier = find_earlier(output_dir, compare)
        if earlier and known and is_unchanged(earlier, listing):
            taken = known.books.written + known.books.duplicates  # All of it, as it is.
            write_source(output_dir, listing.images, known)  # Its folder may have another name.
        else:
            # Late: where nothing has changed, Beam is not needed, and takes two seconds to import.
            from image_pipeline.components.beam.flags import make_pipeline
            from image_pipeline.components.ingest.run import run_ingest

            if not is_there:
                files.delete_tree(next_dir)
            written_dir = next_dir if is_there else output_dir
            manifest = run_ingest(
                listing.images,
                written_dir,
                files.join(output_dir, WORK),
                listing.options,
                lambda: make_pipeline(beam_args),
                listing,
                earlier,
            )
            check_lock()
            counts = None
            if known is not None:
                # What takes nothing from the old data set may replace one that is damaged.
                with contextlib.suppress(*([UserError] if earlier is None else ())):
                    counts = find_changes(output_dir, written_dir, reads_masks=False).counts
            changed = {kind: count for kind, count in (counts or {}).items() if count}
            parent = None if counts is None else known
            add_version(output_dir, written_dir, parent, manifest, counts or {}, replace)
            write_source(written_dir, listing.images, manifest)
            if is_there:
                take_place(output_dir)
            taken = count_taken(output_dir)
        prune_versions(output_dir, versions)
    return summarize_data_set(output_dir) | {
        "noticed": list(listing.noticed),
        "written_before": known and known.books.written,
        "taken": taken,
        "changed": changed,
        "seconds": round(time.monotonic() - started, 1),
        "peak_rss_mb": round(memory.peak_rss_mb),
    }


def print_ingest(summary: dict[str, Any], output_dir: str, console: Console) -> None:
    """Prints an ingest's results."""
    took = f"{summary['seconds']} s, {summary['peak_rss_mb']:,} MB peak"
    print_rows([*ingest_rows(summary), ("took", took), ("data set", output_dir)], console)
