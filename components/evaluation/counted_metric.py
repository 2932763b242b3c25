"""TFMA's side of a metric of our own: what is counted of each record, added up, makes figures."""

import abc
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
from tensorflow_model_analysis.metrics import metric_types, metric_util

Figures = dict[tuple[str, int | None], float]
"""Figures by their name and, of a class's own, the class's id."""


class Counts(beam.CombineFn):
    """Adds up what the records of a slice say; a subclass says what and how.

    Attributes:
      output: the signature's output that holds a record's prediction.
    """

    output = ""

    def __init__(self, key: metric_types.MetricKey):
        """Takes TFMA's key of the first figure."""
        self._key = key

    @abc.abstractmethod
    def create_accumulator(self) -> Any:
        """What no record says."""

    @abc.abstractmethod
    def count(self, true: Any, predicted: Any) -> Any:
        """What one record says, or some."""

    @abc.abstractmethod
    def add(self, some: Any, more: Any) -> Any:
        """What both say."""

    @abc.abstractmethod
    def make_figures(self, counted: Any, name: str) -> Figures:
        """The figures, the first one by this name; a class without one (NaN) is left out."""

    def add_input(self, accumulator: Any, element: metric_types.StandardMetricInputs) -> Any:
        """Adds a record."""
        true = _pick(element.get_labels(), self._key.model_name)
        predicted = _pick(element.get_predictions(), self._key.model_name, self.output)
        return self.add(accumulator, self.count(true, predicted))

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        """Adds up parts."""
        return functools.reduce(self.add, accumulators, self.create_accumulator())

    def extract_output(self, accumulator: Any) -> dict[metric_types.MetricKey, float]:
        """The figures, by TFMA's keys."""
        return {
            self._key._replace(name=name, sub_key=_sub_key(id_)): float(figure)
            for (name, id_), figure in self.make_figures(accumulator, self._key.name).items()
            if id_ is None or not math.isnan(figure)
        }


def compute_by(counts: type[Counts]) -> Callable[..., metric_types.MetricComputations]:
    """What TFMA asks of a metric: the computations of each model's figures."""

    def make_computations(
        name: str, model_name: str = "", output_name: str = "", **_: Any
    ) -> metric_types.MetricComputations:
        key = metric_types.MetricKey(name=name, model_name=model_name, output_name=output_name)
        # A threshold holds for the keys that are listed here; the others come beside it.
        return [
            metric_types.MetricComputation(keys=[key], preprocessors=None, combiner=counts(key))
        ]

    return metric_util.merge_per_key_computations(make_computations)


def _sub_key(id_: int | None) -> metric_types.SubKey | None:
    return None if id_ is None else metric_types.SubKey(class_id=id_)


def _pick(values: Any, *keys: str) -> Any:
    """The values of a model and of an output, where they are kept by these names."""
    for key in keys:
        values = values[key] if isinstance(values, dict) and key in values else values
    return values
