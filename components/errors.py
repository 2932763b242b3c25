"""Errors meant for the person who runs the pipeline, wherever in it they arise."""

import re
from collections.abc import Iterator

from components.names import printable_text


class UserError(Exception):
    """Something that a person can put right; the message names it, the rule and the way out.

    Names in the message are shown so that they are safe for a terminal, wherever it is printed.
    """

    def __str__(self) -> str:
        """The message."""
        return printable_text(super().__str__())


def find_user_error(error: BaseException) -> UserError | None:
    """Finds the `UserError` behind an error that a Beam runner or TFX reports.

    Runners carry a worker's exception as the text of its traceback only, so the text is searched.

    Args:
      error: what the runner raised.

    Returns:
      The error as it was raised on the worker, or None if there was none.
    """
    for cause in walk_causes(error):
        if isinstance(cause, UserError):
            return UserError(_STAGE.sub("", str(cause)))
        if found := _IN_TRACEBACK.findall(str(cause)):
            return UserError(_STAGE.sub("", found[-1].strip()))
    return None


def walk_causes(error: BaseException) -> Iterator[BaseException]:
    """An error, what caused it, what caused that, …: each once, since causes may form a circle."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


# "module.UserError: message", up to a blank line or the next traceback.
_IN_TRACEBACK = re.compile(
    rf"^{re.escape(__name__)}\.UserError: (.*?)(?=\n\n|\nTraceback|\Z)", re.MULTILINE | re.DOTALL
)
# What Beam appends to a worker's message.
_STAGE = re.compile(r"\s*\[while running '[^']*'\]\s*\Z")
