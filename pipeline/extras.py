"""What a smaller installation leaves out, and how to add it."""

import importlib.util

from image_pipeline.components.errors import UserError


def need_tfx(what: str) -> None:
    """Refuses what the core cannot do, before anything is read or written.

    Args:
      what: is asked for, as the beginning of a sentence.

    Raises:
      UserError: if TFX is not installed.
    """
    if importlib.util.find_spec("tfx") is None:
        raise UserError(
            f"{what} needs TFX, which the core of image-pipeline leaves out; install it with "
            "pip install 'image-pipeline[tfx]' (docs/install.md says what else that takes on "
            "systems older than glibc 2.39)."
        )
