"""Runs ingest as one Beam job: the whole of it, without TFX."""

from collections.abc import Callable

import apache_beam as beam

from components import files
from components.errors import find_user_error
from components.ingest.manifest import read_manifest
from components.ingest.options import IngestOptions
from components.ingest.transforms import IngestImages


def run_ingest(
    images_dir: str,
    output_dir: str,
    work_dir: str,
    options: IngestOptions,
    make_pipeline: Callable[[], beam.Pipeline],
) -> dict:
    """Ingests a folder of images.

    Args:
      images_dir: the folder of images, or its URI.
      output_dir: the data set's folder; see `docs/format.md` for what it holds in the end.
      work_dir: the working folder; deleted in the end, kept after a failure.
      options: of ingest.
      make_pipeline: makes the Beam pipeline to run on.

    Returns:
      The manifest.

    Raises:
      UserError: if the person who called can put it right.
    """
    try:
        with make_pipeline() as root:
            root | "Ingest" >> IngestImages(images_dir, output_dir, work_dir, options)
    except Exception as error:
        raise find_user_error(error) or error from error
    manifest = read_manifest(output_dir)
    files.delete_tree(work_dir)
    return manifest
