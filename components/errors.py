"""Errors meant for the person who runs the pipeline, wherever in it they arise."""

import re
from collections.abc import Iterator


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


def find_last_line(error: BaseException) -> str:
    """The line of a message that says what went wrong: of Keras's and TensorFlow's, the last one.

    They begin with the likes of "Graph execution error:", and end with lists of arguments, names of
    nodes and counts of errors, none of which is meant.
    """
    text = _ARGUMENTS.split(str(error))[0]
    lines = (_NODE.sub("", line).strip() for line in text.splitlines())
    told = [_ORDINAL.sub("", line) for line in lines if line and not _COUNT.match(line)]
    return told[-1] if told else ""


# "Arguments received by Dense.call():" and a list, at the end of Keras's messages.
_ARGUMENTS = re.compile(r"^\s*(?:Call a|A)rguments received by ", re.MULTILINE)
# "[[{{node model/dense}}]] [Op:__inference_one_step_12]", at the end of TensorFlow's.
_NODE = re.compile(r"\s*(?:\[\[.*?\]\]|\[Op:[^\]]*\]).*$")
# "(0) INVALID_ARGUMENT: message", where several nodes failed, and the lines that count them.
_ORDINAL = re.compile(r"^\(\d+\)\s+(?:[A-Z_]+: +)?")
_COUNT = re.compile(r"\d+ (?:successful operations|derived errors ignored|root error)")
# "module.UserError: message", up to a blank line or the next traceback.
_IN_TRACEBACK = re.compile(
    rf"^{re.escape(__name__)}\.UserError: (.*?)(?=\n\n|\nTraceback|\Z)", re.MULTILINE | re.DOTALL
)
# What Beam appends to a worker's message.
_STAGE = re.compile(r"\s*\[while running '[^']*'\]\s*\Z")
