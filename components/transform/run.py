"""Runs the analysis as one Beam job: the whole of it, without TFX."""

from collections.abc import Callable, Sequence

import apache_beam as beam
import tensorflow_transform.beam as tft_beam

from image_pipeline.components import files, progress
from image_pipeline.components.beam.job import make_scratch, run_job, runs_here
from image_pipeline.components.dataset.columns import choose_columns
from image_pipeline.components.dataset.record import Column, label_column
from image_pipeline.components.dotted import load_named
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.feeding.analysis import read_content
from image_pipeline.components.function_version import source_version
from image_pipeline.components.transform import span_cache
from image_pipeline.components.transform.analysed_inputs import find_wanted
from image_pipeline.components.transform.analysed_sets import Span, read_spans
from image_pipeline.components.transform.analysis import AnalyzeImages, AnalyzeNewImages
from image_pipeline.components.transform.analysis_file import check_unknown_classes
from image_pipeline.components.transform.check_function import check_dependencies, check_outputs
from image_pipeline.components.transform.check_vocabulary import check_vocabulary
from image_pipeline.components.transform.classes import is_named_by_label
from image_pipeline.components.transform.finish import GraphTask
from image_pipeline.components.transform.function_errors import find_function_error
from image_pipeline.components.transform.lint import check_random
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.record_batches import input_specs
from image_pipeline.components.transform.traced_function import PreprocessingFn, Traced, guard
from image_pipeline.components.views.options import ViewOptions


def run_analysis(
    examples_dirs: str | Sequence[str],
    output_dir: str,
    view: ViewOptions,
    options: TransformOptions,
    make_pipeline: Callable[[], beam.Pipeline],
    cache_dir: str | None = None,
) -> dict:
    """Analyses one or several data sets written by ingest.

    Args:
      examples_dirs: the data set's folder, with its manifest; or several such folders.
      output_dir: where the transform graph and `analysis.json` are written.
      view: the model's input.
      make_pipeline: makes the Beam pipeline to run on.
      cache_dir: where the findings for each data set are kept: data sets that were analysed before
        by the same function are not read again. None reads all, and keeps nothing.

    Returns:
      What `analysis.json` holds: the splits and records analysed, the view, the classes, and the
      statistics that the `preprocessing_fn` named.

    Raises:
      UserError: if the person who called can put it right, or a stage lost records, which is named.
    """
    root = make_pipeline()
    _check_places(root, output_dir, cache_dir)
    folders = [examples_dirs] if isinstance(examples_dirs, str) else list(examples_dirs)
    spans = read_spans(folders, view, options)
    check_unknown_classes(spans, options)
    progress.begin("images", sum(span.records for span in spans))
    try:
        further, first = _find_further(spans, options), _find_first(spans)
        function, task = plan_graph(output_dir, view, options, further, first)
        with (
            make_scratch(root, output_dir) as scratch,
            run_job(root, scratch),
            tft_beam.Context(temp_dir=scratch),
        ):
            if cache_dir is None:
                found = root | "Spans" >> beam.Create([spans])
                found | "AnalyzeImages" >> AnalyzeImages(task, function)
            else:
                root | "AnalyzeImages" >> AnalyzeNewImages(spans, task, function, cache_dir)
    except UserError:
        raise
    except Exception as error:
        name = options.preprocessing_fn
        if known := find_function_error(error, name) or find_user_error(error):
            raise known from error
        raise
    if cache_dir is not None:
        span_cache.mark(cache_dir, spans)
    return read_content(output_dir)


def analyze_later(
    data_dirs: beam.PCollection,
    output_dir: str,
    scratch_dir: str,
    view: ViewOptions,
    options: TransformOptions,
    further: Sequence[Column],
    first: Sequence[str] = (),
) -> beam.PCollection:
    """Adds the analysis to a job that may run at any time, more than once, and on its own.

    Args:
      data_dirs: one element, the folder of a data set that is there when it arrives.
      output_dir: where the transform graph and `analysis.json` are written.
      scratch_dir: a folder that all workers see; the job deletes it in the end.
      view: the model's input.
      further: the further columns of the data set.
      first: the classes that are numbered first, as `ingest.classes` has them.

    Returns:
      One element, None.

    Raises:
      UserError: if the `preprocessing_fn` cannot be used, or TensorFlow cannot write to the folder.
    """
    files.check_known_to_tensorflow(output_dir, "a transform graph that other machines write")
    function, task = plan_graph(output_dir, view, options, further, first)
    # What the data set holds when the job runs: other shards than today's, perhaps.
    spans = data_dirs | "ReadIndex" >> beam.Map(lambda folder: find_spans([folder], task))
    with tft_beam.Context(temp_dir=scratch_dir):
        finished = spans | "AnalyzeImages" >> AnalyzeImages(task, function)
    return finished | "DeleteScratch" >> beam.Map(lambda _: files.delete_tree(scratch_dir))


def plan_graph(
    output_dir: str,
    view: ViewOptions,
    options: TransformOptions,
    further: Sequence[Column],
    first: Sequence[str] = (),
) -> tuple[PreprocessingFn, GraphTask]:
    """What a job needs to make a graph: the function to analyse, and what workers must know of it.

    Args:
      output_dir: where the transform graph is written.
      view: the model's input.
      further: the further columns of the data sets.
      first: the classes that are numbered first, as `ingest.classes` has them.

    Raises:
      UserError: if the function cannot be used.
    """
    function, traced = _load_function(view, options, further, first)
    wanted = find_wanted(traced, choose_inputs(options, further))
    return function, GraphTask(
        output_dir=output_dir,
        view=view,
        options=options,
        wanted=wanted,
        function_version=source_version(options.preprocessing_fn),
        is_named_by_label=is_named_by_label(traced),
        first=tuple(first),
    )


def find_spans(examples_dirs: Sequence[str], task: GraphTask) -> list[Span]:
    """Reads what the data sets of a job hold that was described before.

    Raises:
      UserError: if they cannot be analysed together, or have other columns than the job has.
    """
    spans = read_spans(examples_dirs, task.view, task.options)
    columns = choose_inputs(task.options, _find_further(spans, task.options))
    planned = task.wanted.columns
    if columns != planned:
        raise UserError(
            f"the job analyses the columns {planned}, but the data sets {list(examples_dirs)} "
            f"have {columns}; compile the template again."
        )
    if (first := _find_first(spans)) != task.first:
        raise UserError(
            f"the job numbers classes in the order of ingest.classes={list(task.first)}, but the "
            f"data sets {list(examples_dirs)} have {list(first)}; compile the template again."
        )
    check_unknown_classes(spans, task.options)
    return spans


def _check_places(root: beam.Pipeline, output_dir: str, cache_dir: str | None) -> None:
    """Makes sure of what Beam writes by itself, which knows fewer stores."""
    if cache_dir is not None:
        files.check_known_to_tensorflow(cache_dir, "the analysis's cache")
    if not runs_here(root):
        files.check_known_to_tensorflow(output_dir, "a transform graph that other machines write")


def _find_further(spans: Sequence[Span], options: TransformOptions) -> tuple[Column, ...]:
    """The further columns; those that are read must be alike in all data sets."""
    chosen = {span.examples_dir: choose_inputs(options, span.further) for span in spans}
    if len(set(chosen.values())) > 1:
        raise UserError(
            f"data sets that are analysed together must have transform.columns of the same types, "
            f"got {chosen}; give ingest.column_types, and ingest again."
        )
    return spans[0].further


def _find_first(spans: Sequence[Span]) -> tuple[str, ...]:
    """The classes whose order somebody gave; of several lists, what the earlier ones lack."""
    return tuple(dict.fromkeys(name for span in spans for name in span.given_classes))


def choose_inputs(options: TransformOptions, further: Sequence[Column]) -> tuple[Column, ...]:
    """What a `preprocessing_fn` reads beside image and class: tags or values, chosen columns."""
    label = label_column(further)
    chosen = choose_columns("transform.columns", options.columns, further)
    return chosen if label is None else (*chosen, label)


def load_preprocessing_fn(
    view: ViewOptions, options: TransformOptions, further: Sequence[Column] = ()
) -> PreprocessingFn:
    """Loads the function and, if a trace shows a mistake, refuses it before any data is read.

    Returns:
      The function to analyse, see `guard`.

    Raises:
      UserError: if there is no such function, or it cannot be used.
    """
    return _load_function(view, options, further)[0]


def _load_function(
    view: ViewOptions,
    options: TransformOptions,
    further: Sequence[Column],
    first: Sequence[str] = (),
) -> tuple[PreprocessingFn, Traced]:
    """The function of `load_preprocessing_fn`, and its trace."""
    name = options.preprocessing_fn
    function = load_named("transform.preprocessing_fn", name)
    if not callable(function):
        raise UserError(
            f"transform.preprocessing_fn must name a function, but {name!r} is of type "
            f"{type(function).__name__}; name the function."
        )
    columns = choose_inputs(options, further)
    traced = check_random(function, name, input_specs(view, columns))
    check_outputs(traced, name)
    check_dependencies(traced, name)
    check_vocabulary(traced, name)
    return guard(function, name, first), traced
