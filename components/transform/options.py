"""Options of the analysis that makes the transform graph."""

import pydantic

from components.options import Options


class TransformOptions(Options):
    """What is learnt from the whole data set, before training."""

    preprocessing_fn: str = "components.transform.preprocessing.standardize"
    """Dotted path of a `preprocessing_fn` in tf.Transform's convention."""
    analyze_splits: tuple[str, ...] = pydantic.Field(default=("train",), min_length=1)
    """Splits whose records are analysed. More than train's would leak evaluation data."""
    batch_size: pydantic.PositiveInt = 64
    """Images a batch of the analysis. Changes memory and speed, never the result."""
