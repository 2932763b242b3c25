"""Runs the analysis as one Beam job: the whole of it, without TFX."""

import collections
import re
from collections.abc import Callable, Sequence

import apache_beam as beam
import tensorflow_transform.beam as tft_beam

from image_pipeline.components import contract, files, progress
from image_pipeline.components.beam.job import make_scratch, run_job, runs_here
from image_pipeline.components.dataset.columns import choose_columns
from image_pipeline.components.dataset.record import Column, label_column
from image_pipeline.components.dotted import load_named
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.feeding.input_fn import read_views
from image_pipeline.components.transform import span_cache
from image_pipeline.components.transform.analysed_sets import Span, read_spans
from image_pipeline.components.transform.analysis import AnalyzeImages
from image_pipeline.components.transform.analysis_file import check_unknown_classes, write_summary
from image_pipeline.components.transform.check_function import check_dependencies, check_outputs
from image_pipeline.components.transform.check_graph import check_graph
from image_pipeline.components.transform.check_vocabulary import check_vocabulary
from image_pipeline.components.transform.classes import is_named_by_label
from image_pipeline.components.transform.function_errors import find_function_error
from image_pipeline.components.transform.lint import check_random
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.record_batches import input_specs
from image_pipeline.components.transform.traced_function import PreprocessingFn, guard
from image_pipeline.components.trees import write_tree
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
      UserError: if the person who called can put it right.
      RuntimeError: if a stage lost records; the message names the stage.
    """
    root = make_pipeline()
    _check_places(root, output_dir, cache_dir)
    folders = [examples_dirs] if isinstance(examples_dirs, str) else list(examples_dirs)
    spans = read_spans(folders, view, options)
    columns = _choose_columns(spans, options)
    function = load_preprocessing_fn(view, options, spans[0].further)
    check_unknown_classes(spans, options)
    progress.begin("images", sum(span.records for span in spans))
    try:
        with write_tree(output_dir, last=contract.ANALYSIS) as graph_dir:
            analysis = AnalyzeImages(spans, columns, view, function, options, graph_dir, cache_dir)
            with (
                make_scratch(root, output_dir) as scratch,
                run_job(root, scratch),
                tft_beam.Context(temp_dir=scratch),
            ):
                root | "AnalyzeImages" >> analysis
            _check_result(graph_dir, spans, view, options, columns)
            is_named = not columns or is_named_by_label(function, view, columns)
            summary = write_summary(graph_dir, spans, view, options, is_named)
    except UserError:
        raise
    except Exception as error:
        name = options.preprocessing_fn
        if known := find_function_error(error, name) or find_user_error(error):
            raise known from error
        raise
    if options.preprocessing_fn == TransformOptions().preprocessing_fn:
        check_classes(summary["classes"], spans)
    if cache_dir is not None:
        span_cache.mark(cache_dir, spans)
    return summary


def _check_places(root: beam.Pipeline, output_dir: str, cache_dir: str | None) -> None:
    """Makes sure of what Beam writes by itself, which knows fewer stores."""
    if cache_dir is not None:
        files.check_known_to_tensorflow(cache_dir, "the analysis's cache")
    if not runs_here(root):
        files.check_known_to_tensorflow(output_dir, "a transform graph that other machines write")


def _choose_columns(spans: Sequence[Span], options: TransformOptions) -> tuple[Column, ...]:
    """The further columns that are read, which all data sets must have alike."""
    chosen = {span.examples_dir: choose_inputs(options, span.further) for span in spans}
    if len(set(chosen.values())) > 1:
        raise UserError(
            f"data sets that are analysed together must have transform.columns of the same types, "
            f"got {chosen}; give ingest.column_types, and ingest again."
        )
    return chosen[spans[0].examples_dir]


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
    return guard(function, name)


def check_classes(classes: Sequence[dict], spans: Sequence[Span]) -> None:
    """Fails the run if the classes' counts are not those of the indexes.

    For a runner each analyzer is a separate branch: one may lose what another has seen. A user's
    function may rename or leave out labels, so this is for the default one.

    Args:
      classes: of `analysis.json`.
      spans: the analysed data sets.

    Raises:
      RuntimeError: if one class was counted too often or not often enough.
    """
    indexed = sum((span.analysed for span in spans), collections.Counter())
    # A vocabulary holds neither an empty name nor one of several lines.
    expected = {name: n for name, n in indexed.items() if re.fullmatch(r"[^\n\r]+", name)}
    counted = {row["name"]: row["records"] for row in classes}
    wrong = {name for name in {*expected, *counted} if expected.get(name) != counted.get(name)}
    if wrong:
        name = min(wrong)
        raise RuntimeError(
            f"Stage Analyze lost records of {len(wrong)} classes, for example {name!r}: "
            f"{expected.get(name, 0)} in, {counted.get(name, 0)} out."
        )


def _check_result(
    output_dir: str,
    spans: Sequence[Span],
    view: ViewOptions,
    options: TransformOptions,
    columns: Sequence[Column],
) -> None:
    shard = next(shard for span in spans for shard in span.shards)
    views = next(read_views([shard], view, 1, columns).as_numpy_iterator())
    check_graph(output_dir, views, options.preprocessing_fn)
