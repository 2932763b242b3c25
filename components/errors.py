"""Errors meant for the person who runs the pipeline, wherever in it they arise."""

import re


class UserError(Exception):
    """Something that a person can put right; its message names the thing, the value and the way out."""


def find_user_error(error: BaseException) -> UserError | None:
    """Finds the `UserError` behind an error that a Beam runner or TFX reports.

    Runners carry a worker's exception as the text of its traceback only, so the text is searched.

    Args:
      error: what the runner raised.

    Returns:
      The error as it was raised on the worker, or None if there was none.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UserError):
            return cause
        if found := _IN_TRACEBACK.findall(str(cause)):
            return UserError(found[-1].strip())
        cause = cause.__cause__ or cause.__context__
    return None


# "module.UserError: message", up to Beam's "[while running 'Stage']" or the next blank line.
_IN_TRACEBACK = re.compile(
    rf"^{re.escape(__name__)}\.UserError: (.*?)(?=\s\[while running|\n\n|\nTraceback|\Z)",
    re.MULTILINE | re.DOTALL,
)
