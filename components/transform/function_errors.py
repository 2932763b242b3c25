"""Finds, in what a Beam runner reports, the error of a `preprocessing_fn` that ran on data."""

import re

from image_pipeline.components.errors import UserError, walk_causes

# How tf.Transform 1.21 wraps what TensorFlow says (`beam/impl.py`, `_RunMetaGraphDoFn`). Runners
# may carry it as the text of a traceback only, so the text is searched.
_APPLYING = re.compile(
    r'An error occurred while trying to apply the transformation: "(.*?)"\.\s*Batch instances:',
    re.DOTALL,
)
# TensorFlow's message ends where it names the operation of the graph.
_OPERATION = re.compile(r"^(.*)\n\s*\[\[\{\{node (\S+?)\}\}", re.MULTILINE)


def find_function_error(error: BaseException, name: str) -> UserError | None:
    """Finds the error that the traced function met in the data.

    Args:
      error: what the runner raised.
      name: the preprocessing_fn's dotted path, for the message.

    Returns:
      The error in words, or None if the function was not running.
    """
    for cause in walk_causes(error):
        if found := _APPLYING.search(str(cause)):
            return UserError(
                f"preprocessing_fn {name} fails on the data: {_shorten(found[1])}; it must take "
                "every image, label and column of the data set."
            )
    return None


def _shorten(message: str) -> str:
    """TensorFlow's sentence and the operation, without its notes on where that was defined."""
    if found := _OPERATION.search(message):
        return f"{found[1].strip()} (operation {found[2]})"
    return message.strip().splitlines()[-1].strip() if message.strip() else "no message"
