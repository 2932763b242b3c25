"""What models are measured by: names, words, options and units of all figures, in one table."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Metric:
    """A figure.

    Attributes:
      name: as TFMA's results and Keras's history have it.
      words: as people read it, and as summaries and pages name it.
      is_share: whether it lies between 0 and 1, and more is better; else it is an error.
      option: what bounds it, where models are judged by it.
      tfma_class: what measures it, in TFMA's configuration.
      of_class: what the same figure of one class is called, in words.
      counted: what a class's figure is made of.
    """

    name: str
    words: str
    is_share: bool = True
    option: str = ""
    tfma_class: str = ""
    of_class: str = ""
    counted: str = ""


_TABLE = (
    Metric(
        *("sparse_categorical_accuracy", "accuracy", True, "evaluation.min_accuracy"),
        *("SparseCategoricalAccuracy", "accuracy", "records"),
    ),
    Metric(
        *("mean_io_u", "mean IoU", True, "evaluation.min_mean_iou"),
        *("MeanIoU", "IoU", "pixels"),
    ),
    Metric(
        *("map_50_95", "mAP50-95", True, "evaluation.min_map_50_95"),
        *("MeanAveragePrecision", "AP50-95", "boxes"),
    ),
    Metric("f1", "F1", True, "evaluation.min_f1", "TagScores", "F1", "images"),
    Metric(
        *("mean_squared_error", "mean squared error", False),
        *("evaluation.max_mean_squared_error", "MeanSquaredError", "mean squared error"),
    ),
    Metric("mean_absolute_error", "mean absolute error", is_share=False),
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
