"""The analysis's last stage: checks the new graph on images, and writes `analysis.json` beside it.

It is a stage of the job, so that a job that nobody waits for, such as a template's, ends with the
same checks and files as one that is submitted.
"""

import collections
import dataclasses
import re
from collections.abc import Sequence

from image_pipeline.components.dataset.record import Column
from image_pipeline.components.feeding.input_fn import read_views
from image_pipeline.components.transform.analysed_sets import Span
from image_pipeline.components.transform.analysis_file import summarize, write_summary
from image_pipeline.components.transform.check_graph import check_graph
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.views.options import ViewOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTask:
    """A transform graph to be made, with what its last stage says of a `preprocessing_fn`.

    Attributes:
      output_dir: where the graph and `analysis.json` are written.
      view: the model's input.
      columns: the further columns that the `preprocessing_fn` reads.
      function_version: a hash of its source.
      is_named_by_label: whether a record's class depends on its label alone.
    """

    output_dir: str
    view: ViewOptions
    options: TransformOptions
    columns: tuple[Column, ...]
    function_version: str
    is_named_by_label: bool


def finish_graph(_: None, spans: Sequence[Span], task: GraphTask) -> None:
    """Checks a graph that tf.Transform has written, and describes it in `analysis.json`.

    Args:
      spans: the analysed data sets.

    Raises:
      UserError: if the graph cannot be used; the message says why.
      RuntimeError: if a stage lost records; the message names the stage.
    """
    _check_result(spans, task)
    summary = summarize(
        task.output_dir,
        spans,
        task.view,
        task.options,
        task.function_version,
        task.is_named_by_label,
    )
    if task.options.preprocessing_fn == TransformOptions().preprocessing_fn:
        check_classes(summary["classes"], spans)
    write_summary(task.output_dir, summary)


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


def _check_result(spans: Sequence[Span], task: GraphTask) -> None:
    shard = next(shard for span in spans for shard in span.shards)
    views = next(read_views([shard], task.view, 1, task.columns).as_numpy_iterator())
    check_graph(task.output_dir, views, task.options.preprocessing_fn)
