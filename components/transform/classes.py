"""The classes of a finished transform graph, whichever vocabulary of the user's names them."""

import collections
import dataclasses
from collections.abc import Mapping

import numpy as np

from image_pipeline.components import contract
from image_pipeline.components.feeding.graph import TransformGraph, read_class_names
from image_pipeline.components.transform.check_function import reach_inputs
from image_pipeline.components.transform.traced_function import Traced

# Statistics that `labels.label_ids` leaves in the graph.
CLASS_STATISTICS = ("class_names", "class_counts", "class_priors", "class_weights")


@dataclasses.dataclass(frozen=True)
class ClassFigures:
    """A class: its analysed records, and what follows from them; None where they are not known."""

    name: str
    records: int | None = None
    prior: float | None = None
    weight: float | None = None


def list_classes(found: Mapping[str, np.ndarray], transform_graph_dir: str) -> list[ClassFigures]:
    """The classes in the order of their ids, in numbers if the `preprocessing_fn` counted them.

    Args:
      found: the graph's statistics.
      transform_graph_dir: the folder that tf.Transform wrote, with the vocabulary.
    """
    names = read_class_names(transform_graph_dir)
    if not all(name in found for name in CLASS_STATISTICS):
        return [ClassFigures(name) for name in names]
    rows = zip(*(found[name].tolist() for name in CLASS_STATISTICS), strict=True)
    return [ClassFigures(name.decode(errors="replace"), *figures) for name, *figures in rows]


def count_classes(
    classes: list[ClassFigures], transform_graph_dir: str, analysed: Mapping[str, int]
) -> list[ClassFigures]:
    """Counts classes that the `preprocessing_fn` did not count, from the labels of the index.

    Args:
      classes: as `list_classes` gives them.
      transform_graph_dir: the folder that tf.Transform wrote.
      analysed: label to number of records.

    Returns:
      The classes, with the numbers of those that were without.
    """
    if not classes or classes[0].records is not None:
        return classes
    counts: collections.Counter[int] = collections.Counter()
    labels = list(analysed)
    for number, label in zip(
        TransformGraph(transform_graph_dir).find_ids(labels), labels, strict=True
    ):
        counts[number] += analysed[label]
    total = sum(counts[number] for number in range(len(classes)))
    return [
        ClassFigures(
            name=row.name,
            records=counts[number],
            prior=counts[number] / total if total else None,
            weight=total / (len(classes) * counts[number]) if counts[number] else None,
        )
        for number, row in enumerate(classes)
    ]


def is_named_by_label(traced: Traced) -> bool:
    """Whether a record's class depends on its label alone, and on no further column."""
    reached = reach_inputs(traced, traced.outputs[contract.LABEL_OUTPUT])
    return reached <= {contract.LABEL_INPUT}
