"""Errors meant for the person who runs the pipeline, wherever in it they arise."""

import re
from collections.abc import Iterator


class UserError(Exception):
    """Something that a person can put right; the message names it, the rule and the way out."""


def find_user_error(error: BaseException) -> UserError | None:
    """Finds the `UserError` behind an error that a Beam runner or TFX reports.

    Runners carry a worker's exception as the text of its traceback only, so the text is searched:
    for a `UserError`, and for what TensorFlow says once an object store has failed all its tries.

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
        if failed := _TENSORFLOW_S_STORE.search(str(cause)):
            return store_error(failed[2] or "an object store", failed[1])
    return None


def store_error(uri: str, reason: str) -> UserError:
    """What is said of a store that does not do what it was asked for, in one line."""
    reason = " ".join(reason.split())
    shown = reason if len(reason) <= _REASON_LENGTH else f"{reason[:_REASON_LENGTH]}…"
    return UserError(
        f"{uri}: its store refused or did not answer ({shown}); check the address, the network, "
        "and what the credentials allow."
    )


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
# TensorFlow's `curl_http_request.cc` and `gcs_file_system.cc`: what went wrong, with which file.
_TENSORFLOW_S_STORE = re.compile(
    r"Error executing an HTTP request: (.*?)(?:\s+when [\w ]+?(gs://[^\s']+)|\Z)", re.DOTALL
)
_REASON_LENGTH = 300
