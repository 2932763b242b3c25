"""What a smaller installation leaves out, and how to add it."""

import importlib.util

from image_pipeline.components.errors import UserError

# By the extra in pyproject.toml that installs it: the module, and what it is called.
_PACKAGES = {
    "coco": ("pycocotools", "pycocotools"),
    "hdf5": ("h5py", "h5py"),
    "sound": ("soundfile", "soundfile"),
    "tfx": ("tfx", "TFX"),
    "video": ("av", "PyAV"),
    "zarr": ("numcodecs", "numcodecs"),
}


def need(extra: str, what: str) -> None:
    """Refuses what an extra is for where that is not installed.

    Args:
      extra: its name in pyproject.toml.
      what: is asked for, as the beginning of a sentence.

    Raises:
      UserError: if the extra is not installed.
    """
    module, package = _PACKAGES[extra]
    if importlib.util.find_spec(module) is None:
        raise UserError(
            f"{what} needs {package}, which the core of image-pipeline leaves out; install it with "
            f"pip install 'image-pipeline[{extra}]' (docs/install.md says what that takes)."
        )
