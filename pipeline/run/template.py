"""Ingest, the analysis, or both in one job, as a template that Dataflow can start at any time.

They are the same transforms that `image-pipeline ingest` and `analyze` run. Nothing is started; the
template and the workers' files go where the flags say.
"""

import dataclasses
from collections.abc import Sequence

import apache_beam as beam

from image_pipeline.components import files
from image_pipeline.components.beam.flags import make_pipeline
from image_pipeline.components.beam.job import check_same_code
from image_pipeline.components.dataset.manifest import read_whole_manifest
from image_pipeline.components.dataset.paths import WORK
from image_pipeline.components.dataset.record import Column, further_columns
from image_pipeline.components.feeding.rules import check_pixels
from image_pipeline.components.function_version import ROOMS, code_version
from image_pipeline.components.ingest.run import IngestImages
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import analyze_later
from image_pipeline.components.views.options import ViewOptions


@dataclasses.dataclass(frozen=True)
class IngestJob:
    """Ingest in a template.

    Attributes:
      images_dir: the URI of the images, as the workers see it.
    """

    images_dir: str
    options: IngestOptions


@dataclasses.dataclass(frozen=True)
class AnalysisJob:
    """The analysis in a template.

    Attributes:
      graph_dir: the URI of the transform graph.
      view: the model's input.
    """

    graph_dir: str
    view: ViewOptions
    options: TransformOptions


def write_template(
    data_dir: str,
    beam_args: Sequence[str],
    ingest: IngestJob | None = None,
    analysis: AnalysisJob | None = None,
) -> None:
    """Writes a job as a template.

    Args:
      data_dir: the URI of the data set, which ingest writes or, without it, is there.
      beam_args: checked Beam flags; they name Dataflow and `--template_location`.
      ingest: None for the analysis of a data set that is there.
      analysis: None for ingest alone.

    Raises:
      UserError: if what is described cannot be run.
    """
    root = make_pipeline(beam_args)
    here = code_version(*ROOMS)
    _ = root | "CodeVersion" >> beam.Create([here]) | "CheckCode" >> beam.Map(_check_code)
    if ingest is None:
        further, first = _read_labels(data_dir, analysis)
        data_dirs = root | "DataSet" >> beam.Create([data_dir])
    else:
        options = complete_options(ingest.images_dir, ingest.options)
        further, first = further_columns(options.column_types), options.classes or ()
        data_dirs = root | "Ingest" >> _Ingest(ingest.images_dir, data_dir, options)
    if analysis is not None:
        scratch = files.join(analysis.graph_dir, ".scratch")
        folders = (analysis.graph_dir, scratch)
        analyze_later(data_dirs, *folders, analysis.view, analysis.options, further, first)
        root.run()
        files.delete_tree(scratch)  # tf.Transform writes there while a job is described, too.
    else:
        root.run()


def _check_code(here: str) -> None:
    check_same_code(here, code_version(*ROOMS))


def _read_labels(
    data_dir: str, analysis: AnalysisJob | None
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The further columns of a data set that is there, and the classes that it was given."""
    manifest = read_whole_manifest(data_dir)
    if analysis is not None:
        check_pixels({data_dir: manifest}, analysis.view)
    return manifest.further, manifest.given_classes


@dataclasses.dataclass
class _Ingest(beam.PTransform):
    images_dir: str
    data_dir: str
    options: IngestOptions

    def expand(self, root: beam.Pipeline) -> beam.PCollection:
        """Builds the pipeline; its result has one element, the data set's folder."""
        work = WorkFolder(files.join(self.data_dir, WORK))
        return (
            root
            | "Images" >> IngestImages(self.images_dir, self.data_dir, work, self.options)
            # Otherwise a failure here would repeat the steps before it, which need the folder.
            | "Settle" >> beam.Reshuffle()
            | "DeleteWork" >> beam.Map(lambda _, folder: files.delete_tree(folder), work.path)
            | "DataSet" >> beam.Map(lambda _, folder: folder, self.data_dir)
        )
