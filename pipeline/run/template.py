"""Ingest as a Dataflow template, which Dataflow can start at any time.

It is the same transform that `image-pipeline ingest` runs. Nothing is started; the template and the
workers' files go where the flags say.
"""

from collections.abc import Sequence

import apache_beam as beam

from image_pipeline.components import files
from image_pipeline.components.ingest.complete_options import complete_options
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.ingest.transforms import IngestImages
from image_pipeline.run.ingest import make_beam_pipeline


def write_template(
    images_dir: str, output_dir: str, options: IngestOptions, beam_args: Sequence[str]
) -> None:
    """Writes the ingest job to where `--template_location` says.

    Args:
      images_dir: the URI of the images, as the workers see it.
      output_dir: the URI of the data set.
      beam_args: checked Beam flags; they name Dataflow and `--template_location`.
    """
    options = complete_options(images_dir, options)
    pipeline = make_beam_pipeline(beam_args)
    work_dir = files.join(output_dir, ".work")
    (
        pipeline
        | "Ingest" >> IngestImages(images_dir, output_dir, work_dir, options)  # dict
        # Otherwise a failure here would repeat the steps before it, which need the folder.
        | "Settle" >> beam.Reshuffle()
        | "DeleteWork" >> beam.Map(lambda _, folder: files.delete_tree(folder), work_dir)
    )
    pipeline.run()
