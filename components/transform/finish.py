"""The analysis's last stage: checks the new graph on images, puts it in its place, describes it.

An earlier graph stays until the new one has passed, and the stage may be repeated at any point. It
is a stage of the job, so that a job that nobody waits for, such as a template's, ends with the same
checks and files as one that is submitted.
"""

import collections
import dataclasses
import os
import re
import tempfile
from collections.abc import Sequence
from typing import Any

import tensorflow_transform as tft
from tensorflow_transform.tf_metadata import metadata_io

from image_pipeline.components import contract, files
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import CHECKSUMS, write_checksums
from image_pipeline.components.feeding.parse import feature_spec
from image_pipeline.components.transform.analysed_sets import Span
from image_pipeline.components.transform.analysis_file import (
    VERIFY,
    summarize,
    to_content,
    write_summary,
)
from image_pipeline.components.transform.check_graph import check_graph, check_statistics
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.statistics import read_statistics
from image_pipeline.components.transform.view_reader import Wanted, read_views
from image_pipeline.components.trees import copy_tree, send_tree
from image_pipeline.components.views.options import ViewOptions

_SAVED_MODEL_DIR = tft.TFTransformOutput.TRANSFORM_FN_DIR
_METADATA_DIR = tft.TFTransformOutput.TRANSFORMED_METADATA_DIR
_RAW_METADATA_DIR = tft.TFTransformOutput.RAW_METADATA_DIR


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTask:
    """A transform graph to be made, with what its last stage says of a `preprocessing_fn`.

    Attributes:
      output_dir: where the graph and `analysis.json` are written.
      view: the model's input.
      wanted: what the analysis reads of a record.
      function_version: a hash of its source.
      is_named_by_label: whether a record's class depends on its label alone.
      first: the classes that are numbered first, as `ingest.classes` has them.
    """

    output_dir: str
    view: ViewOptions
    options: TransformOptions
    wanted: Wanted
    function_version: str
    is_named_by_label: bool
    first: tuple[str, ...] = ()


def finish_graph(
    saved_model_dir: str, metadata_dir: str, spans: Sequence[Span], task: GraphTask
) -> None:
    """Checks a graph that tf.Transform has written, and puts it and `analysis.json` in its place.

    Args:
      saved_model_dir: tf.Transform's, in a scratch folder.
      metadata_dir: the schema of what the graph computes, in a scratch folder, too.
      spans: the analysed data sets.

    Raises:
      UserError: if the graph cannot be used, or a stage lost records; the message says why.
    """
    with tempfile.TemporaryDirectory() as graph_dir:
        copy_tree(saved_model_dir, os.path.join(graph_dir, _SAVED_MODEL_DIR))
        copy_tree(metadata_dir, os.path.join(graph_dir, _METADATA_DIR))
        _describe_records(graph_dir, spans)
        files.delete(files.join(graph_dir, CHECKSUMS))  # Of an earlier graph, if it was one.
        found = read_statistics(graph_dir)
        check_statistics(found, task.options.preprocessing_fn)
        _check_result(graph_dir, spans, task)
        summary = summarize(
            graph_dir,
            found,
            spans,
            task.view,
            task.options,
            task.function_version,
            task.is_named_by_label,
        )
        if task.options.preprocessing_fn == TransformOptions().preprocessing_fn:
            check_classes(summary["classes"], spans)
        write_checksums(graph_dir, to_content(summary))
        _publish(graph_dir, summary, task.output_dir)


def _describe_records(graph_dir: str, spans: Sequence[Span]) -> None:
    """Writes the schema of the records, which TFX's Transform writes, too: to parse them by.

    It is not that of the graph's inputs, which TensorFlow cannot parse: pixels of 8 bits. Of
    several data sets, it has the features that all of them have.
    """
    shared = [each for each in spans[0].columns if all(each in span.columns for span in spans)]
    described = tft.DatasetMetadata.from_feature_spec(feature_spec(shared))
    metadata_io.write_metadata(described, os.path.join(graph_dir, _RAW_METADATA_DIR))


def _publish(graph_dir: str, summary: dict[str, Any], output_dir: str) -> None:
    """Replaces what the folder holds; in between, it has neither `analysis.json` nor a model."""
    model = (_SAVED_MODEL_DIR, "saved_model.pb")
    files.delete(files.join(output_dir, contract.ANALYSIS), files.join(output_dir, *model))
    schema = "schema.pbtxt"
    for name, last in ((_RAW_METADATA_DIR, schema), (_METADATA_DIR, schema), model):
        send_tree(os.path.join(graph_dir, name), files.join(output_dir, name), last)
    write_summary(output_dir, summary)


def check_classes(classes: Sequence[dict], spans: Sequence[Span]) -> None:
    """Fails the run if the classes' counts are not those of the indexes.

    An index may say something else than its shards. And for a runner each analyzer is a separate
    branch: one may lose what another has seen. A user's function may rename or leave out labels,
    so this is for the default one.

    Args:
      classes: of `analysis.json`.
      spans: the analysed data sets.

    Raises:
      UserError: if one class was counted too often or not often enough.
    """
    indexed = sum((span.analysed for span in spans), collections.Counter())
    # A vocabulary holds neither an empty name nor one of several lines.
    expected = {name: n for name, n in indexed.items() if re.fullmatch(r"[^\n\r]+", name)}
    counted = {row["name"]: row["records"] for row in classes}
    wrong = {
        name for name in {*expected, *counted} if expected.get(name, 0) != counted.get(name, 0)
    }
    if wrong:
        name = min(wrong)
        raise UserError(
            f"Stage Analyze lost records of {len(wrong)} classes, for example {name!r}: "
            f"{expected.get(name, 0)} in, {counted.get(name, 0)} out; {VERIFY}."
        )


def _check_result(graph_dir: str, spans: Sequence[Span], task: GraphTask) -> None:
    shard = next(shard for span in spans for shard in span.shards)
    first = next(read_views(shard, task.view, 1, Wanted(columns=task.wanted.columns)))
    assert first.images is not None
    views = {contract.IMAGE_INPUT: first.images, contract.LABEL_INPUT: first.labels, **first.values}
    check_graph(graph_dir, views, task.options.preprocessing_fn)
