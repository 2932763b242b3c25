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
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_transform.tf_metadata import metadata_io

from image_pipeline.components import contract, files
from image_pipeline.components.dataset.record import label_column
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import (
    CHECKSUMS,
    AnalysedClass,
    describe_files,
    write_checksums,
)
from image_pipeline.components.feeding.graph import TransformGraph, read_class_names
from image_pipeline.components.feeding.parse import feature_spec
from image_pipeline.components.function_version import code_version
from image_pipeline.components.json_text import to_json
from image_pipeline.components.labels.kinds import VALUES
from image_pipeline.components.transform.analysed_sets import GraphTask, Span
from image_pipeline.components.transform.kept_sums import write_sums
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.record_batches import Wanted, read_views
from image_pipeline.components.transform.statistics import read_statistics
from image_pipeline.components.trees import copy_tree, send_tree

VERIFY = (
    "`image-pipeline verify` with the data set's folder tells whether its index is that of its "
    "shards; if it is, run again"
)
"""The way out where records were lost, as the end of a sentence."""
# Statistics that `labels.label_ids` leaves in the graph.
_OF_CLASSES = ("class_names", "class_counts", "class_priors", "class_weights")
# Statistics that are listed under other names.
_OWN = (*_OF_CLASSES, "records", "constant_channels")
_SHORT = 64  # most values of a statistic listed in full; longer ones are only described


def summarize(
    output_dir: str, found: dict[str, np.ndarray], spans: Sequence[Span], task: GraphTask
) -> dict[str, Any]:
    """What `analysis.json` holds.

    Args:
      output_dir: the transform graph's folder.
      found: the graph's statistics.
      spans: the analysed data sets.

    Raises:
      UserError: if the analysis saw another number of records than the data sets hold.
    """
    view, options = task.view, task.options
    check_records(int(found["records"]), sum(span.records for span in spans))
    first, label = spans[0], label_column(spans[0].further)
    analysed = sum((span.analysed for span in spans), collections.Counter())
    classes = []
    if label not in VALUES.columns:
        classes = list_classes(found, output_dir, analysed if task.is_named_by_label else None)
    named = {name: value for name, value in found.items() if name not in _OWN}
    return {
        # The graph's input: its size, and what the numbers mean.
        "view": view.model_dump(mode="json"),
        "channel_order": contract.CHANNEL_ORDER.get(view.channels, contract.AS_STORED),
        "color_space": contract.COLOR_SPACE if view.dtype == "uint8" else contract.AS_STORED,
        **({} if first.dtype == "uint8" else {"dtype": first.dtype}),
        "alpha_background": first.alpha_background,
        **({} if first.depth == (0, 65_535) else {"depth": first.depth}),
        **({} if first.sound is None else {"sound": first.sound}),
        **({} if first.resize is None else {"resize": first.resize}),
        # What it was made from: the function, the code and the data sets, by hash.
        "preprocessing_fn": options.preprocessing_fn,
        "function_version": task.function_version,
        "code_version": code_version("feeding", "order", "transform"),
        "columns": options.columns,
        "manifests": [span.manifest_sha256 for span in spans],
        "splits": options.analyze_splits,
        "fraction": options.analyze_fraction,
        "records_in_splits": sum(
            span.split_records[split] for span in spans for split in options.analyze_splits
        ),
        **({} if label is None else {"label": label.key}),
        # What was found: short values in full, long ones described.
        "records": int(found["records"]),
        "statistics": {
            name: value.tolist() for name, value in named.items() if value.size <= _SHORT
        },
        "large_statistics": {
            name: describe(value) for name, value in named.items() if value.size > _SHORT
        },
        "constant_channels": np.flatnonzero(found.get("constant_channels", [])).tolist(),
        "classes": [each.model_dump() for each in classes],
        "unknown_label": options.unknown_label,
        "unknown_classes": find_unknown_classes(spans),
        "other_labels": sorted(analysed.keys() - {each.name for each in classes} - {""}),
        **first.kind.describe(
            first.stored_classes, sum((span.counts for span in spans), collections.Counter())
        ),
        "files": sorted(describe_files(output_dir)),
    }


def to_content(summary: dict[str, Any]) -> bytes:
    """The content of `analysis.json`."""
    return to_json(summary, indent=1, ensure_ascii=False).encode() + b"\n"


def write_summary(output_dir: str, summary: dict[str, Any]) -> None:
    """Writes `analysis.json` into the transform graph's folder."""
    files.write_file(files.join(output_dir, contract.ANALYSIS), to_content(summary))


def list_classes(
    found: Mapping[str, np.ndarray], transform_graph_dir: str, analysed: Mapping[str, int] | None
) -> list[AnalysedClass]:
    """The classes in the order of their ids, whichever vocabulary of the user's names them.

    Args:
      found: the graph's statistics; if the `preprocessing_fn` counted the classes, it is by these.
      transform_graph_dir: the folder that tf.Transform wrote, with the vocabulary.
      analysed: label to number of records, by which they are counted otherwise; None if a class
        does not depend on its label alone.
    """
    if all(name in found for name in _OF_CLASSES):
        rows = zip(*(found[name].tolist() for name in _OF_CLASSES), strict=True)
        return [
            AnalysedClass(name=name.decode(errors="replace"), records=n, prior=prior, weight=weight)
            for name, n, prior, weight in rows
        ]
    names = read_class_names(transform_graph_dir)
    if not names or analysed is None:
        return [AnalysedClass(name=name) for name in names]
    counts: collections.Counter[int] = collections.Counter()
    ids = TransformGraph(transform_graph_dir).find_ids(list(analysed))
    for number, records in zip(ids, analysed.values(), strict=True):
        counts[number] += records
    total = sum(counts[number] for number in range(len(names)))
    return [
        AnalysedClass(
            name=name,
            records=counts[number],
            prior=counts[number] / total if total else None,
            weight=total / (len(names) * counts[number]) if counts[number] else None,
        )
        for number, name in enumerate(names)
    ]


def check_records(analysed: int, expected: int) -> int:
    """Fails the run if the analyzers saw another number of records than the data sets hold."""
    if analysed != expected:
        raise UserError(f"Stage ReadViews lost records: {expected} in, {analysed} out; {VERIFY}.")
    return analysed


def describe(value: np.ndarray) -> dict[str, Any]:
    """A statistic too large to read: its shape and, of numbers, the range."""
    described: dict[str, Any] = {"shape": list(value.shape)}
    if value.dtype.kind in "fiu":
        described |= {"min": value.min().item(), "max": value.max().item()}
    return described


def find_unknown_classes(spans: Sequence[Span]) -> dict[str, dict[str, int]]:
    """Classes that neither an analysed record has nor somebody named: they will get the id -1.

    Returns:
      Split to class name to number of records.
    """
    known = {label for span in spans for label in (*span.analysed, *span.given_classes)}
    unknown: dict[str, collections.Counter] = {}
    for span in spans:
        for split, labels in span.classes.items():
            for label, count in labels.items():
                if label not in known:
                    unknown.setdefault(split, collections.Counter())[label] += count
    return {split: dict(sorted(labels.items())) for split, labels in sorted(unknown.items())}


def check_unknown_classes(spans: Sequence[Span], options: TransformOptions) -> None:
    """Refuses classes that no analysed record has, if the options say so.

    Raises:
      UserError: it names them.
    """
    unknown = find_unknown_classes(spans)
    if unknown and options.unknown_label == "error":
        raise UserError(
            f"every class must be among the analysed records, but {unknown} are not; add such "
            f"images to {list(options.analyze_splits)} (ingest.stratify shares classes out), or "
            "set transform.unknown_label to 'minus_one' to leave them out."
        )


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
