"""Options for evaluation."""

import pydantic

from image_pipeline.components.options import Options
from image_pipeline.components.rules import Rule


class EvaluationOptions(Options):
    """When a model is good enough to be pushed."""

    min_accuracy: float = pydantic.Field(default=0.5, ge=0, le=1)
    """A model with a lower accuracy on the eval split is not pushed."""
    min_mean_iou: float = pydantic.Field(default=0.25, ge=0, le=1)
    """Of images with masks: a model with a lower mean IoU on the eval split is not pushed. Of four
    or more classes, a model that always predicts the same one has no more than that."""
    min_map_50_95: float = pydantic.Field(default=0.1, ge=0, le=1)
    """Of images with boxes: a model is not pushed if its mean average precision on the eval split
    is lower: COCO's, the mean over overlaps (IoU) from 0.5 to 0.95."""
    min_f1: float = pydantic.Field(default=0.5, ge=0, le=1)
    """Of tags: a model whose F1 over all images and tags of the eval split is lower is not pushed.
    A model that always predicts all tags has 2p / (1 + p), p being the share of tags that are
    true."""
    max_mean_squared_error: pydantic.PositiveFloat | None = None
    """Of values: a model with a greater mean squared error on the eval split is not pushed. The
    analysis finds the values' variance, which is the error of a model that always predicts their
    mean. None: any model is."""
    min_improvement: float | None = pydantic.Field(default=None, ge=-1, le=1)
    """By how much its accuracy (of masks: its mean IoU; of boxes: its mAP50-95; of tags: its F1)
    must exceed that of the latest model that was good enough, measured on the same records; 0 means
    that it must not be worse, -1 that both are compared and nothing is asked. Of values, how much
    less its mean squared error must be. The first model passes. None: models are not compared."""
    confidence_intervals: bool = False
    """Whether TFMA estimates confidence intervals of its metrics by jackknife, too; evaluation then
    takes several times as long. Only the metrics of masks and boxes have no interval without it."""
    slices: tuple[str, ...] = ()
    """Columns that break metrics down by their values, with intervals: a table's own, of one value
    an image each, or `image/class/text`, `image/format`, `image/height` and the like. Of names, the
    20 most frequent are kept; numbers, if they are more than that or have fractions, are put into
    four bins of about as many images. Not for masks and boxes."""
    mislabelled_records: pydantic.NonNegativeInt = 10_000
    """Of classes: among how many records of all splits (chosen by their ids) wrong labels, and
    images unlike all others, are looked for. 10,000 of 32 px take some 13 s of CPU; 0: none are."""

    rules = (
        Rule(
            lambda options: [n for n in options.slices if options.slices.count(n) > 1],
            "evaluation.slices names {found[0]!r} twice; name each column once.",
        ),
    )
