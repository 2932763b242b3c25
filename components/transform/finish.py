"""The analysis's last stage: checks the new graph on images, puts it in its place, describes it.

An earlier graph stays until the new one has passed, and the stage may be repeated at any point. It
is a stage of the job, so that a job that nobody waits for, such as a template's, ends with the same
checks and files as one that is submitted.
"""

import collections
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_transform.tf_metadata import metadata_io

from image_pipeline.components import contract, files
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import CHECKSUMS, write_checksums
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.parse import feature_spec
from image_pipeline.components.transform.analysed_sets import GraphTask, Span
from image_pipeline.components.transform.analysis_file import (
    VERIFY,
    summarize,
    to_content,
    write_summary,
)
from image_pipeline.components.transform.kept_sums import write_sums
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.record_batches import Wanted, read_views
from image_pipeline.components.transform.statistics import read_statistics
from image_pipeline.components.trees import copy_tree, send_tree

_SAVED_MODEL_DIR = tft.TFTransformOutput.TRANSFORM_FN_DIR
_METADATA_DIR = tft.TFTransformOutput.TRANSFORMED_METADATA_DIR
_RAW_METADATA_DIR = tft.TFTransformOutput.RAW_METADATA_DIR
# How far an image's output may move, relative to the greatest value, when its neighbours change:
# matrix products round differently for other batch sizes (float32: 6e-8 a step).
_TOLERANCE = 1e-4
_PROBE = ("a black image", "a white image", "an image of the data set")
_GUARD = "guard its divisions and logarithms, for example with tf.maximum(std, 1e-6)."


def finish_graph(
    saved_model_dir: str,
    metadata_dir: str,
    spans: Sequence[Span],
    rows: Iterable[np.ndarray],
    task: GraphTask,
) -> None:
    """Checks a graph that tf.Transform has written, and puts it and `analysis.json` in its place.

    Args:
      saved_model_dir: tf.Transform's, in a scratch folder.
      metadata_dir: the schema of what the graph computes, in a scratch folder, too.
      spans: the analysed data sets.
      rows: the sums of their images, see `kept_sums`.

    Raises:
      UserError: if the graph cannot be used, or a stage lost records; the message says why.
    """
    name = task.options.preprocessing_fn
    with tempfile.TemporaryDirectory() as graph_dir:
        copy_tree(saved_model_dir, os.path.join(graph_dir, _SAVED_MODEL_DIR))
        copy_tree(metadata_dir, os.path.join(graph_dir, _METADATA_DIR))
        # The schema of the records, which TFX's Transform writes, too: to parse them by. It is not
        # that of the graph's inputs, which TensorFlow cannot parse: pixels of 8 bits. Of several
        # data sets, it has the features that all of them have.
        shared = [each for each in spans[0].columns if all(each in span.columns for span in spans)]
        described = tft.DatasetMetadata.from_feature_spec(feature_spec(shared))
        metadata_io.write_metadata(described, os.path.join(graph_dir, _RAW_METADATA_DIR))
        files.delete(files.join(graph_dir, CHECKSUMS))  # Of an earlier graph, if it was one.
        found = read_statistics(graph_dir)
        for key, value in found.items():
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                wrong = value[~np.isfinite(value)].reshape(-1)[0]
                raise UserError(
                    f"the statistic {key} of preprocessing_fn {name} must be finite, got {wrong}; "
                    f"{_GUARD}"
                )
        _check_result(graph_dir, spans, task)
        summary = summarize(graph_dir, found, spans, task)
        if name == TransformOptions().preprocessing_fn:
            check_classes(summary["classes"], spans)
        write_checksums(graph_dir, to_content(summary))
        # Whichever graph the folder has: they are of images, and say of which view.
        write_sums(task.output_dir, task.view, rows)
        # In between, the folder has neither `analysis.json` nor a model.
        model = (_SAVED_MODEL_DIR, "saved_model.pb")
        earlier = (files.join(task.output_dir, *part) for part in ((contract.ANALYSIS,), model))
        files.delete(*earlier)
        schema = "schema.pbtxt"
        for part, last in ((_RAW_METADATA_DIR, schema), (_METADATA_DIR, schema), model):
            send_tree(os.path.join(graph_dir, part), files.join(task.output_dir, part), last)
        write_summary(task.output_dir, summary)


def _check_result(graph_dir: str, spans: Sequence[Span], task: GraphTask) -> None:
    """Runs the graph on the first image."""
    shard = next(shard for span in spans for shard in span.shards)
    first = next(read_views(shard, task.view, 1, Wanted(columns=task.wanted.columns), most=1))
    assert first.images is not None
    views = {contract.IMAGE_INPUT: first.images, contract.LABEL_INPUT: first.labels, **first.values}
    check_graph(graph_dir, views, task.options.preprocessing_fn)


def check_graph(transform_graph_dir: str, views: Mapping[str, np.ndarray], name: str) -> None:
    """Runs the graph on a black, a white and a real image, and on each of them alone.

    Args:
      transform_graph_dir: the folder that tf.Transform wrote.
      views: at least one real image with its label and columns, as `read_views` gives them.
      name: the preprocessing_fn's dotted path, for messages.

    Raises:
      UserError: if an output is NaN or infinite, if there is not one output for each image, or if
        an image's output depends on its neighbours in the batch.
    """
    graph = TransformGraph(transform_graph_dir)
    probe = {key: np.stack([value[0]] * len(_PROBE)) for key, value in views.items()}
    probe[contract.IMAGE_INPUT][0], probe[contract.IMAGE_INPUT][1] = 0, 255

    def run(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        batch = {key: tf.constant(value[rows]) for key, value in probe.items()}
        try:
            image, label = graph(batch)
        except tf.errors.OpError as error:
            raise UserError(
                f"preprocessing_fn {name} fails on a batch of "
                f"{len(probe[contract.LABEL_INPUT][rows])}: {error.message.splitlines()[0]}; it "
                "must take batches of any size."
            ) from error
        return image.numpy().astype(np.float64), label.numpy()

    whole, single = run(slice(None)), [run(slice(row, row + 1)) for row in range(len(_PROBE))]
    for index, key in enumerate((contract.IMAGE_OUTPUT, contract.LABEL_OUTPUT)):
        together, apart = whole[index], np.concatenate([outputs[index] for outputs in single])
        if len(together) != len(_PROBE) or together.shape != apart.shape:
            raise UserError(
                f"preprocessing_fn {name} must return one row of {key!r} for each image, got "
                f"{list(together.shape)} for {len(_PROBE)} images and {list(apart.shape)} from "
                "images apart; keep the batch dimension."
            )
        if not np.isfinite(together).all():
            bad = int(np.argmax([not np.isfinite(row).all() for row in together]))
            raise UserError(
                f"preprocessing_fn {name} must return finite numbers, got NaN or infinity in "
                f"{key!r} for {_PROBE[bad]}; {_GUARD}"
            )
        scale = max(1.0, float(np.abs(together).max(initial=0)))
        if float(np.abs(together - apart).max(initial=0)) > _TOLERANCE * scale:
            raise UserError(
                f"preprocessing_fn {name} makes {key!r} of an image depend on its neighbours in "
                "the batch or its place in it, which differ between training and serving; use an "
                "analyzer (tft.mean, tft.sum, …) for what concerns the whole data set."
            )


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
