"""What models are measured by: names, words, options and units of all metrics, in one table."""

import dataclasses
from typing import Annotated

import pydantic
import pydantic.dataclasses


@dataclasses.dataclass(frozen=True)
class Metric:
    """A figure.

    Attributes:
      name: as TFMA's results and Keras's history have it.
      words: as people read it, and as summaries and pages name it.
      is_share: whether it lies between 0 and 1, and more is better; else it is an error.
      option: what bounds it, where models are judged by it.
      tfma_class: what measures it, in TFMA's configuration.
      module: the module of a class of our own; else it is Keras's or TFMA's.
      of_class: what the same figure of one class is called, in words.
      counted: what a class's figure is made of.
    """

    name: str
    words: str
    is_share: bool = True
    option: str = ""
    tfma_class: str = ""
    module: str = ""
    of_class: str = ""
    counted: str = ""


_OWN = "image_pipeline.components.evaluation"
_TABLE = (
    Metric(
        name="sparse_categorical_accuracy",
        words="accuracy",
        option="evaluation.min_accuracy",
        tfma_class="SparseCategoricalAccuracy",
        of_class="accuracy",
        counted="records",
    ),
    Metric(
        name="mean_io_u",
        words="mean IoU",
        option="evaluation.min_mean_iou",
        tfma_class="MeanIoU",
        module=f"{_OWN}.counted_metrics",
        of_class="IoU",
        counted="pixels",
    ),
    Metric(
        name="map_50_95",
        words="mAP50-95",
        option="evaluation.min_map_50_95",
        tfma_class="MeanAveragePrecision",
        module=f"{_OWN}.average_precision",
        of_class="AP50-95",
        counted="boxes",
    ),
    Metric(
        name="f1",
        words="F1",
        option="evaluation.min_f1",
        tfma_class="TagScores",
        module=f"{_OWN}.counted_metrics",
        of_class="F1",
        counted="images",
    ),
    Metric(
        name="mean_squared_error",
        words="mean squared error",
        is_share=False,
        option="evaluation.max_mean_squared_error",
        tfma_class="MeanSquaredError",
        of_class="mean squared error",
    ),
    Metric("mean_absolute_error", "mean absolute error", False, tfma_class="MeanAbsoluteError"),
    Metric("io_u", "IoU"),
    Metric("pixel_accuracy", "pixel accuracy"),
    Metric("map_50", "mAP50"),
    Metric("ap_50_95", "AP50-95"),
    Metric("mean_f1", "mean F1"),
    Metric("precision", "precision"),
    Metric("recall", "recall"),
)
METRICS = {each.name: each for each in _TABLE}
IN_WORDS = {each.words: each for each in _TABLE}


def is_share(words: str) -> bool:
    """Whether a figure, known by its words, is a share; of others nothing is known."""
    return words in IN_WORDS and IN_WORDS[words].is_share


_Number = Annotated[float | None, pydantic.Field(strict=True)]


@pydantic.dataclasses.dataclass(frozen=True)
class Estimate:
    """A figure, and the ends of its interval; None where nothing is known of them.

    In a file, a value that is not a number is None, too.
    """

    value: _Number
    low: _Number = None
    high: _Number = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError("an interval has two ends")

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends."""
        return None if self.low is None or self.high is None else (self.low, self.high)
