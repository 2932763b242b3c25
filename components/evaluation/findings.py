"""The files that evaluation writes beside TFMA's: facts, answers, and labels to look at."""

import collections
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq
import tensorflow as tf

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.evaluation.answers import ANSWERS, AnswerTable, join_tables
from image_pipeline.components.evaluation.describe_model import MEASURED, describe_model
from image_pipeline.components.evaluation.embedding import look_at_records
from image_pipeline.components.evaluation.evaluation import Measured, read_measured
from image_pipeline.components.evaluation.facts import ClassFacts, Evaluation, write_evaluation
from image_pipeline.components.evaluation.metrics import Estimate
from image_pipeline.components.labels.kinds import MASKS, find_kind
from image_pipeline.components.rules import check
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.rules import SLICES, find_types
from image_pipeline.components.tasks.signatures import (
    CLASSES,
    IMAGE_BYTES,
    PIXELS,
    SERVE_IMAGES,
    SERVE_PIXELS,
)
from image_pipeline.components.trees import fetch_tree

_PARTS = "answers"
_CLASSES = "classification"


def plan_collection(
    evaluation_dir: str, task: str, options: EvaluationOptions, data_dirs: Sequence[str]
) -> AnswerTable | None:
    """What answers are kept, and where; None of masks and boxes, which have no row of metrics.

    Raises:
      UserError: if a column of `evaluation.slices` is none, or has several values.
    """
    if task not in MEASURED:
        return None
    columns = read_manifest(data_dirs[0]).further
    check(SLICES, evaluation=options, columns=columns)
    types = tuple((name, find_types(columns)[name]) for name in options.slices)
    folder = files.join(evaluation_dir, _PARTS)
    files.delete_tree(folder)
    return AnswerTable(task, types, files.join(folder, "part"))


def write_findings(
    evaluation_dir: str,
    task: str,
    collected: AnswerTable | None,
    model_dir: str,
    options: EvaluationOptions,
    data_dirs: Sequence[str],
    blessed: bool,
) -> None:
    """Puts together what TFMA measured and what records' answers say; looks for wrong labels.

    Args:
      evaluation_dir: where TFMA wrote its files.
      task: the name of what the model learned.
      collected: what answers were kept, and where; None of masks and boxes.
      model_dir: the exported model.
      options: how metrics are sliced, and among how many records wrong labels are looked for.
      data_dirs: the data sets' folders.
      blessed: whether the model is good enough.
    """
    own: dict[str, Any] = {"metrics": {}, "classes": []}
    if collected is None:
        # Of masks the data set knows pixels by ids, of boxes boxes by names.
        manifests = [read_manifest(folder) for folder in data_dirs]
        kind, total = find_kind(manifests[0].columns), collections.Counter[str]()
        names = list(kind.class_names(manifests[0]))
        for manifest in manifests:
            splits = [name for name in manifest.splits if name == "eval"]
            total.update(kind.counts(manifest, splits))
        keys = map(str, range(len(names))) if kind is MASKS else names
        counts = {name: total[key] for name, key in zip(names, keys, strict=True)}
    else:
        # The workers' files become one, whose bytes do not depend on their number.
        folder = files.join(evaluation_dir, _PARTS)
        paths = files.list_files(folder, "*.parquet") if files.exists(folder) else []
        parts = [pq.read_table(io.BytesIO(files.read_file(path))) for path in sorted(paths)]
        answers = join_tables([*parts, collected.schema.empty_table()])
        content = io.BytesIO()
        pq.write_table(answers, content)
        files.write_file(files.join(evaluation_dir, ANSWERS), content.getvalue())
        files.delete_tree(folder)

        model = tf.saved_model.load(fetch_tree(model_dir))
        names = _read_names(model)
        own = describe_model(task, answers, names, options.slices)
        if task == _CLASSES and (most := options.mislabelled_records):
            own |= look_at_records(evaluation_dir, model, names, most, data_dirs)
        counts = {row["name"]: row["records"] for row in own["classes"]}
    measured = read_measured(evaluation_dir, None if task == _CLASSES else names)
    write_evaluation(evaluation_dir, join_facts(task, measured, own, counts, blessed))


def _read_names(model: Any) -> list[str]:
    """The names that an exported model has for its output values; none of numbers."""
    if SERVE_PIXELS in model.signatures:  # A tenth of the graph that decodes files: 0.6 s less.
        ask = model.signatures[SERVE_PIXELS]
        _, inputs = ask.structured_input_signature
        answered = ask(**{PIXELS: tf.zeros([1, *inputs[PIXELS].shape[1:]], inputs[PIXELS].dtype)})
    else:
        answered = model.signatures[SERVE_IMAGES](**{IMAGE_BYTES: tf.constant([b""])})
    return [name.decode() for name in answered[CLASSES][0].numpy()] if CLASSES in answered else []


def join_facts(
    task: str, measured: Measured, own: Mapping[str, Any], counts: Mapping[str, int], blessed: bool
) -> Evaluation:
    """TFMA's metrics, and what else records' answers say.

    Args:
      task: the name of what the model learned.
      measured: what TFMA has.
      own: as `describe_model` and `look_at_records` make it; its intervals are taken where TFMA
        estimated none.
      counts: how many records, pixels or boxes each class has in the eval split.
      blessed: whether the model is good enough.
    """
    overall = dict(measured.overall)
    records = overall.pop("records", None)
    further = dict(own["metrics"])
    if own.get("compared") and "accuracy gained" in overall:
        further["accuracy gained"] = own["compared"]["gained"]
    each, scores = measured.metric.of_class, {row["name"]: row for row in own["classes"]}
    classes, ranks = [], {}
    # TFMA has nothing of a class that no record of the eval split has, though it may be answered.
    for name in dict.fromkeys([*measured.classes, *counts]):
        figure = measured.classes.get(name, {}).get(each, Estimate(None))
        row = scores.get(name, {})
        # Of the records of a class, recall is the accuracy.
        estimated = row.get("recall" if task == _CLASSES else each)
        lowest = figure.value if figure.low is None else figure.low
        ranks[name] = (lowest, figure.value, name) if _is_number(figure) else (math.inf, 0.0, name)
        classes.append(
            ClassFacts(
                name=name,
                records=counts.get(name, 0),
                figure=_add_interval(figure, estimated),
                precision=row.get("precision"),
                recall=row.get("recall"),
                F1=row.get("F1"),
                mistake=row.get("mistake") or measured.mistakes.get(name),
            )
        )
    of_classes = (metrics[each] for metrics in measured.classes.values() if each in metrics)
    method = None
    if any(figure.interval for figure in [*overall.values(), *of_classes]):
        method = "jackknife"
    elif any(figure.interval for figure in further.values()):
        method = "Wilson" if task == _CLASSES else "bootstrap"
    return Evaluation(
        task=task,
        measure=measured.metric.words,
        records=0 if records is None else round(records.value or 0),
        blessed=blessed,
        bound=measured.bound,
        failures=measured.failures,
        metrics={name: _add_interval(figure, further.get(name)) for name, figure in overall.items()}
        | {
            name: figure
            for name, figure in further.items()
            if name not in overall and _is_number(figure)
        },
        method=method,
        classes=sorted(classes, key=lambda row: ranks[row.name]),
        constant=own.get("constant"),
        compared=own.get("compared"),
        slices=own.get("slices", {}),
        mislabelled=own.get("mislabelled"),
        outliers=own.get("outliers"),
        answers=own.get("answers"),
    )


def _add_interval(figure: Estimate, own: Estimate | None) -> Estimate:
    if figure.interval or own is None or not _is_number(own):
        return figure
    return Estimate(figure.value, own.low, own.high)


def _is_number(figure: Estimate) -> bool:
    return figure.value is not None and math.isfinite(figure.value)
