"""Options of the analysis, and this package's `preprocessing_fn`s by their short names."""

from typing import Annotated, Literal

import pydantic

from image_pipeline.components.dataset.record import EXTRA_COLUMNS
from image_pipeline.components.dotted import follow_rename
from image_pipeline.components.messages import suggest
from image_pipeline.components.options import Options

_KEYS = [column.key for column in EXTRA_COLUMNS]
FIXED = ("imagenet", "caffe", "minus_one_to_one", "keep_levels")
"""Those that know nothing of the data set; backbones want one of them."""
_MODULES = {
    **dict.fromkeys(("standardize", "subtract_mean"), "preprocessing"),
    **dict.fromkeys(("whiten_zca", "whiten_pca"), "whitening"),
    **dict.fromkeys(FIXED, "fixed"),
}
OWN = {
    name: f"image_pipeline.components.transform.{module}.{name}"
    for name, module in _MODULES.items()
}
"""Their dotted paths, by name."""


def name_function(given: str) -> str:
    """The dotted path of a short name; a dotted path stays, or follows its module's new name.

    Raises:
      ValueError: if it is a word, but names no function.
    """
    if given in OWN:
        return OWN[given]
    if "." in given:
        return follow_rename(given)
    raise ValueError(
        f"there is no preprocessing_fn {given!r}; {suggest(given, OWN, most=3)}known: "
        f"{', '.join(OWN)}; or give the dotted path of your own, my_module.preprocess"
    )


class TransformOptions(Options):
    """What is learned from the whole data set, before training."""

    preprocessing_fn: Annotated[str, pydantic.AfterValidator(name_function)] = OWN["standardize"]
    """Dotted path of a `preprocessing_fn` that follows tf.Transform's convention, or the name of
    one of this package's (docs/transform.md): `standardize`, `subtract_mean`, `whiten_zca`,
    `whiten_pca`; or, as networks with weights of others want their pixels, `imagenet`, `caffe`,
    `minus_one_to_one`, `keep_levels`."""
    columns: tuple[str, ...] = ()
    """Additional features of a record that the `preprocessing_fn` reads, by key. Only these are
    parsed and fed; the image output must not depend on them, since a served image has none."""
    analyze_splits: tuple[str, ...] = pydantic.Field(default=("train",), min_length=1)
    """Splits whose records are analysed. Any besides train would leak evaluation data."""
    analyze_fraction: float = pydantic.Field(default=1.0, gt=0, le=1)
    """Share of those records that is analysed, chosen by their ids: always the same records."""
    unknown_label: Literal["minus_one", "error"] = "minus_one"
    """What happens to a class of another split that is not among the analysed records, nor named by
    `ingest.classes`: it gets the id -1, which training and metrics leave out, or it is an error
    before anything is analysed."""
    keep_cache: bool = False
    """Whether findings for each data set are kept beside the pipeline's outputs, so that a later
    run with an added data set, or another function with the same analyzers, reads less. The result
    is the same."""
    batch_size: pydantic.PositiveInt = 64
    """Images per batch of the analysis. Changes memory and speed, never the result."""

    @pydantic.field_validator("columns")
    @classmethod
    def _check_columns(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        for key in columns:
            if "/" in key and key not in _KEYS:
                raise ValueError(
                    f"transform.columns names {key!r}, but a record has {_KEYS}; "
                    f"{suggest(key, _KEYS) or 'name one of those.'}".rstrip()
                )
        if len(set(columns)) < len(columns):
            raise ValueError(f"transform.columns names a key twice: {list(columns)}; remove one.")
        return columns
