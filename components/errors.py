"""Errors meant for the person who runs the pipeline, wherever in it they arise."""

import re


class UserError(Exception):
    """Something that a person can put right; the message names it, the rule and the way out."""


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
            return UserError(_STAGE.sub("", str(cause)))
        if found := _IN_TRACEBACK.findall(str(cause)):
            return UserError(_STAGE.sub("", found[-1].strip()))
        cause = cause.__cause__ or cause.__context__
    return None


# "module.UserError: message", up to a blank line or the next traceback.
_IN_TRACEBACK = re.compile(
    rf"^{re.escape(__name__)}\.UserError: (.*?)(?=\n\n|\nTraceback|\Z)", re.MULTILINE | re.DOTALL
)
# What Beam appends to a worker's message.
_STAGE = re.compile(r"\s*\[while running '[^']*'\]\s*\Z")
