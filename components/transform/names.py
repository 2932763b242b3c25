"""Short names of this package's `preprocessing_fn`s. It needs no TensorFlow."""

from image_pipeline.components.dotted import follow_rename
from image_pipeline.components.messages import suggest

_ROOM = "image_pipeline.components.transform"
FIXED = ("imagenet", "caffe", "minus_one_to_one", "keep_levels")
"""Those that know nothing of the data set; backbones want one of them."""
_MODULES = {
    **dict.fromkeys(("standardize", "subtract_mean"), "preprocessing"),
    **dict.fromkeys(("whiten_zca", "whiten_pca"), "whitening"),
    **dict.fromkeys(FIXED, "fixed"),
}
OWN = {name: f"{_ROOM}.{module}.{name}" for name, module in _MODULES.items()}
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
