"""A sampled profile of training: a folder for TensorBoard, and the slowest operations in words."""

import itertools
import os
from collections.abc import Iterable
from typing import Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.training.profile import Profile, describe_trace, record_trace
from image_pipeline.doctor.step import Step


def check_folder(folder: str) -> None:
    """Says at once if the trace could not be written.

    Raises:
      UserError: if so.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--profile-dir must be a folder that can be written, got {folder!r}: "
            f"{error.strerror}; name another one."
        ) from error


def profile_steps(
    batches: Iterable[Any], step: Step, steps: int, warm_up: int, folder: str
) -> Profile:
    """Traces steps of training.

    Args:
      batches: of images and labels, more than all the steps.
      step: of the model.
      steps: how many to trace.
      warm_up: steps before them, which compile and fill buffers.
      folder: where the trace goes.
    """
    taken = iter(batches)
    for images, labels in itertools.islice(taken, warm_up):
        step(images, labels)
    with record_trace(folder):
        for images, labels in itertools.islice(taken, steps):
            step(images, labels)
    return describe_trace(folder, steps)
