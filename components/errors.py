"""Errors meant for the person who runs the pipeline, wherever they arise."""

import errno
import os
import re
from collections.abc import Iterator

from image_pipeline.components.names import printable_text


class UserError(Exception):
    """Something that the user can put right; the message says what, the rule and what to do.

    Names in the message are escaped so that it can safely be printed to a terminal.
    """

    def __str__(self) -> str:
        """The message."""
        return printable_text(super().__str__())


def find_user_error(error: BaseException) -> UserError | None:
    """Finds the `UserError` behind an error that a Beam runner or TFX reports.

    Runners carry a worker's exception only as the text of its traceback, so the text is searched
    for a `UserError`, and for what TensorFlow says when all its attempts on an object store fail,
    or when a shard is damaged.

    Args:
      error: what the runner raised.

    Returns:
      The error as it was raised on the worker, or one that says which disk is full, which store
      failed or what is damaged; None if there was none of these.
    """
    for cause in walk_causes(error):
        if isinstance(cause, UserError):
            return UserError(_STAGE.sub("", str(cause)))
        if found := _IN_TRACEBACK.findall(str(cause)):
            return UserError(_STAGE.sub("", found[-1].strip()))
    for explain in (_explain_full_disk, _explain_store, _explain_damage):
        for cause in walk_causes(error):
            if known := explain(cause):
                return known
    return None


def _explain_store(error: BaseException) -> UserError | None:
    """TensorFlow reports a failed store only in the text of its message."""
    if not (failed := _TENSORFLOW_S_STORE.search(str(error))):
        return None
    return store_error(failed[2] or "an object store", failed[1])


def _explain_damage(error: BaseException) -> UserError | None:
    """TensorFlow does not say in which of the shards."""
    if not (found := _DAMAGED.search(str(error))):
        return None
    return UserError(
        f"A shard is damaged: {found[0]}; `image-pipeline verify` with the data set's folder names "
        "it; run ingest again."
    )


def _explain_full_disk(error: BaseException) -> UserError | None:
    """Libraries raise Python's error or, like TensorFlow, only quote the system's words."""
    if not (isinstance(error, OSError) and error.errno in _FULL):
        if not (found := _IN_WORDS.search(str(error))):
            return None
        path = found["path"]
    else:
        path = error.filename
    where = f"Cannot write {path}" if path else "Cannot write"
    return UserError(
        f"{where}: the disk is full; free some space, or choose a folder on another disk, and run "
        "again; what is finished is kept."
    )


def raise_interrupt(error: BaseException) -> None:
    """Raises the interrupt (Ctrl-C) that a runner turned into an error of its own, if it did."""
    for cause in walk_causes(error):
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None


def store_error(uri: str, reason: str) -> UserError:
    """The error for a store that refuses a request or does not answer, in one line."""
    reason = " ".join(reason.split())
    shown = reason if len(reason) <= _REASON_LENGTH else f"{reason[:_REASON_LENGTH]}…"
    return UserError(
        f"{uri}: its store refused or did not answer ({shown}); check the address, the network, "
        "and what the credentials allow."
    )


def walk_causes(error: BaseException) -> Iterator[BaseException]:
    """An error, its cause, that one's cause, …: each once, since causes may form a cycle."""
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
_FULL = (errno.ENOSPC, errno.EDQUOT)
# TensorFlow's form: "{{function_node …}} /out/part-0; No space left on device [Op:SaveV2]".
_IN_WORDS = re.compile(
    rf"(?:(?P<path>[^\s;]+); )?(?:{'|'.join(re.escape(os.strerror(code)) for code in _FULL)})"
)
# What Beam appends to a worker's message.
_STAGE = re.compile(r"\s*\[while running '[^']*'\]\s*\Z")
# TensorFlow's `curl_http_request.cc` and `gcs_file_system.cc`: what went wrong, with which file.
_TENSORFLOW_S_STORE = re.compile(
    r"Error executing an HTTP request: (.*?)(?:\s+when [\w ]+?(gs://[^\s']+)|\Z)", re.DOTALL
)
# Of a TFRecord file, with the offset of the record or of what is in it, and of a gzipped one.
_DAMAGED = re.compile(r"(?:corrupted|truncated) record at \d+|inflate\(\) failed with error -?\d+")
_REASON_LENGTH = 300
