"""`analysis.json`: what was analysed and found, for people, beside the transform graph."""

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from image_pipeline.components import contract, files
from image_pipeline.components.dataset.record import label_column
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import AnalysedClass, describe_files
from image_pipeline.components.feeding.graph import TransformGraph, read_class_names
from image_pipeline.components.function_version import code_version
from image_pipeline.components.json_text import to_json
from image_pipeline.components.labels.kinds import VALUES
from image_pipeline.components.transform.analysed_sets import GraphTask, Span
from image_pipeline.components.transform.options import TransformOptions

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
