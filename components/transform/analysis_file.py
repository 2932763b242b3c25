"""`analysis.json`: what was analysed and found, for people, beside the transform graph."""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from image_pipeline.components import contract, files
from image_pipeline.components.code_version import code_version
from image_pipeline.components.dataset.record import label_column
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import describe_files
from image_pipeline.components.json_text import to_json
from image_pipeline.components.labels.kinds import VALUES
from image_pipeline.components.transform.analysed_sets import Span
from image_pipeline.components.transform.classes import (
    CLASS_STATISTICS,
    count_classes,
    list_classes,
)
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.views.options import ViewOptions

VERIFY = (
    "`image-pipeline verify` with the data set's folder tells whether its index is that of its "
    "shards; if it is, run again"
)
"""The way out where records were lost, as the end of a sentence."""
# Statistics that are listed under other names.
_OWN = (*CLASS_STATISTICS, "records", "constant_channels")
_SHORT = 64  # most values of a statistic listed in full; longer ones are only described


def summarize(
    output_dir: str,
    found: dict[str, np.ndarray],
    spans: Sequence[Span],
    view: ViewOptions,
    options: TransformOptions,
    function_version: str,
    is_named_by_label: bool,
) -> dict[str, Any]:
    """What `analysis.json` holds.

    Args:
      output_dir: the transform graph's folder.
      found: the graph's statistics.
      spans: the analysed data sets.
      view: the model's input.
      function_version: a hash of the `preprocessing_fn`'s source.
      is_named_by_label: whether a record's class depends on its label alone.

    Raises:
      RuntimeError: if the analysis saw another number of records than the data sets hold.
    """
    check_records(int(found["records"]), sum(span.records for span in spans))
    label = label_column(spans[0].further)
    classes = [] if label in VALUES.columns else list_classes(found, output_dir)
    analysed = sum((span.analysed for span in spans), collections.Counter())
    if is_named_by_label:
        classes = count_classes(classes, output_dir, analysed)
    return {
        **describe_input(view),
        **({} if spans[0].dtype == "uint8" else {"dtype": spans[0].dtype}),
        "alpha_background": spans[0].alpha_background,
        **({} if spans[0].depth == (0, 65_535) else {"depth": spans[0].depth}),
        **({} if spans[0].sound is None else {"sound": spans[0].sound}),
        **({} if spans[0].resize is None else {"resize": spans[0].resize}),
        **describe_origin(spans, options, function_version),
        **({} if label is None else {"label": label.key}),
        "records": int(found["records"]),
        **describe_statistics(found),
        "classes": [dataclasses.asdict(each) for each in classes],
        "unknown_label": options.unknown_label,
        "unknown_classes": find_unknown_classes(spans),
        "other_labels": sorted(analysed.keys() - {each.name for each in classes} - {""}),
        **spans[0].kind.describe(
            spans[0].stored_classes, sum((span.counts for span in spans), collections.Counter())
        ),
        "files": sorted(describe_files(output_dir)),
    }


def to_content(summary: dict[str, Any]) -> bytes:
    """The content of `analysis.json`."""
    return to_json(summary, indent=1, ensure_ascii=False).encode() + b"\n"


def write_summary(output_dir: str, summary: dict[str, Any]) -> None:
    """Writes `analysis.json` into the transform graph's folder."""
    files.write_file(files.join(output_dir, contract.ANALYSIS), to_content(summary))


def describe_input(view: ViewOptions) -> dict[str, Any]:
    """Describes the graph's image input: its size, and what the numbers mean."""
    return {
        "view": view.model_dump(mode="json"),
        "channel_order": contract.CHANNEL_ORDER.get(view.channels, contract.AS_STORED),
        "color_space": contract.COLOR_SPACE if view.dtype == "uint8" else contract.AS_STORED,
    }


def describe_origin(
    spans: Sequence[Span], options: TransformOptions, function_version: str
) -> dict[str, Any]:
    """Describes what the graph was made from: the function, the code and the data sets, by hash."""
    return {
        "preprocessing_fn": options.preprocessing_fn,
        "function_version": function_version,
        "code_version": code_version("feeding", "order", "transform"),
        "columns": options.columns,
        "manifests": [span.manifest_sha256 for span in spans],
        "splits": options.analyze_splits,
        "fraction": options.analyze_fraction,
        "records_in_splits": sum(
            span.split_records[split] for span in spans for split in options.analyze_splits
        ),
    }


def describe_statistics(found: dict[str, np.ndarray]) -> dict[str, Any]:
    """What the `preprocessing_fn` named: short values in full, long ones described."""
    named = {name: value for name, value in found.items() if name not in _OWN}
    return {
        "statistics": {
            name: value.tolist() for name, value in named.items() if value.size <= _SHORT
        },
        "large_statistics": {
            name: describe(value) for name, value in named.items() if value.size > _SHORT
        },
        "constant_channels": np.flatnonzero(found.get("constant_channels", [])).tolist(),
    }


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
