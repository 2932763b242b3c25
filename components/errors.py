"""Errors meant for the person who runs the pipeline, wherever they arise."""

import errno
import os
import re
from collections.abc import Iterator, Sequence

from image_pipeline.components.names import printable_text


class UserError(Exception):
    """Something that the user can correct; the message states the rule, the value and what to do.

    Names in the message are escaped so that it can safely be printed to a terminal.
    """

    def __str__(self) -> str:
        return printable_text(super().__str__())


def raise_together(problems: Sequence[UserError]) -> None:
    """Raises all problems as one error, a single one as it is; none does nothing."""
    if problems:
        together = UserError("\n".join(map(str, problems)))
        raise problems[0] if len(problems) == 1 else together


def find_user_error(error: BaseException) -> UserError | None:
    """Finds the `UserError` behind an error that a Beam runner or TFX reports.

    Runners carry a worker's exception only as the text of its traceback, so the text is searched
    for a `UserError`, and for what TensorFlow says when all its attempts on an object store fail,
    or when a shard is damaged.

    Returns:
      The error as it was raised on the worker, or one that says what the machine lacks, which store
      failed, what is damaged or which file the system refuses; None if there was none of these.
    """
    for cause in walk_causes(error):
        if isinstance(cause, UserError):
            return UserError(_STAGE.sub("", str(cause)))
        kinds: list[type[UserError]] = [UserError, *UserError.__subclasses__()]
        pattern = _IN_TRACEBACK.format("|".join(kind.__name__ for kind in kinds))
        if found := re.findall(pattern, str(cause), re.MULTILINE | re.DOTALL):
            return UserError(_STAGE.sub("", found[-1].strip()))
    for explain in (explain_shortage, _explain_store, _explain_damage, _explain_refusal):
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
    """TensorFlow does not say in which of the shards, unless one is gone."""
    if found := _GONE.search(str(error)):
        return UserError(
            f"{found['path']} is gone, or was replaced by another run, while it was read; run "
            "again once nobody changes the data set."
        )
    if not (found := _DAMAGED.search(str(error))):
        return None
    return UserError(
        f"A shard is damaged: {found[0]}; `image-pipeline verify` with the data set's folder names "
        "it; run ingest again."
    )


def explain_shortage(error: BaseException) -> UserError | None:
    """Explains an error by what the machine lacks: memory, threads, open files, a sound disk.

    Libraries raise Python's error, one of their own, or only quote the system's words.

    Args:
      error: its causes are not looked at.

    Returns:
      What is lacking, and how to allow more or ask for less; None if the machine is not to blame.
    """
    text = str(error)
    code = errno.ENOMEM if isinstance(error, MemoryError) else getattr(error, "errno", None)
    for codes, words, says in _SHORTAGES:
        found = words.search(text)
        if code in codes or (found and not isinstance(code, int)):
            path = getattr(error, "filename", None) or (found and (found["path"] or found["file"]))
            return UserError(says.format(f" {path}" if path else ""))
    return None


def _explain_refusal(error: BaseException) -> UserError | None:
    """A file that somebody else's rights, folder or disk keeps from being read or written."""
    if isinstance(error, OSError) and error.errno in _REFUSED and error.filename is not None:
        name, why = repr(os.fsdecode(error.filename)), error.strerror
    elif found := _REFUSED_IN_WORDS.search(str(error)):  # All that Beam keeps of an error.
        name, why = found["name"], found["why"]
    else:
        return None
    return UserError(
        f"{name} cannot be read or written: {why}; check what it is and whose, and run again."
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
_IN_TRACEBACK = r"^image_pipeline\.[\w.]+\.(?:{}): (.*?)(?=\n\n|\nTraceback|\Z)"


def _words(codes: Sequence[int], *others: str) -> re.Pattern[str]:
    """How a shortage is reported: the system's words, and libraries' as regular expressions.

    TensorFlow's form is "{{function_node …}} /out/part-0; No space left on device [Op:SaveV2]",
    Python's, of which Beam keeps no more than the text, "[Errno 28] No space left …: '/out/a'".
    """
    known = [re.escape(os.strerror(code)) for code in codes]
    return re.compile(
        rf"(?:(?P<path>[^\s;]+); )?(?:{'|'.join([*known, *others])})(?:: '(?P<file>[^']*)')?",
        re.MULTILINE,
    )


NO_THREAD = "can't start new thread"
"""What Python says."""
_FULL = errno.ENOSPC, errno.EDQUOT
_FAILING = errno.EIO, errno.ESTALE, errno.EREMOTEIO, errno.ENOTCONN
_OPEN = errno.EMFILE, errno.ENFILE
LACKING = errno.ENOMEM, *_OPEN
"""The system's numbers of errors that say nothing about the file that was to be read."""
# System's numbers, words in messages, and what to say, with a path where `{}` is.
_SHORTAGES = (
    (
        _FULL,
        _words(_FULL),
        "Cannot write{}: the disk is full; free some space, or choose a folder on another disk, "
        "and run again; what is finished is kept.",
    ),
    (
        (errno.EFBIG,),
        _words([errno.EFBIG]),
        "Cannot write{}: the file would be larger than the system allows (`ulimit -f`); allow "
        "more, or write smaller shards (ingest.shards), and run again; what is finished is kept.",
    ),
    (
        _FAILING,
        _words(_FAILING),
        "Reading or writing{} failed: the disk, or the connection to it, is at fault; check it, "
        "and run again; what is finished is kept.",
    ),
    (
        _OPEN,
        _words(_OPEN, "random_device"),
        "Too many files are open; allow more (`ulimit -n 4096`).",
    ),
    (
        (errno.EAGAIN,),
        # Python's, OpenBLAS's and TensorFlow's, of a thread that cannot be started.
        _words([errno.EAGAIN], NO_THREAD, "pthread_create", "Thread creation"),
        "No further thread or process can be started; allow more of them (`ulimit -u`, the "
        "container's limit) or more memory (`ulimit -v`), or ask for fewer (ingest.threads=1).",
    ),
    (
        (errno.ENOMEM,),
        # What runners quote, C++, OpenCV, TensorFlow, and the linker of a library at its import.
        _words(
            [errno.ENOMEM],
            r"^\w*MemoryError\b",
            r"^\S+\.\w*MemoryError\b",
            "std::bad_alloc",
            "Insufficient memory",
            "OOM when allocating",
            "failed to map segment",
        ),
        "There is too little memory; free some, or allow more (`ulimit -v`, the container's "
        "limit), or hold less at a time: fewer threads (ingest.threads), smaller batches "
        "(feeding.batch_size, transform.batch_size).",
    ),
)
_REFUSED = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ELOOP),
    *(errno.ENAMETOOLONG, errno.ENXIO, errno.EINVAL),  # The last of what is not a regular file.
}
_REFUSED_IN_WORDS = re.compile(
    rf"\[Errno (?:{'|'.join(map(str, _REFUSED))})\] (?P<why>[\w -]+): (?P<name>'[^']*')"
)
# What Beam appends to a worker's message.
_STAGE = re.compile(r"\s*\[while running '[^']*'\]\s*\Z")
# TensorFlow's `curl_http_request.cc` and `gcs_file_system.cc`: what went wrong, with which file.
_TENSORFLOW_S_STORE = re.compile(
    r"Error executing an HTTP request: (.*?)(?:\s+when [\w ]+?(gs://[^\s']+)|\Z)", re.DOTALL
)
# Of a TFRecord file, with the offset of the record or of what is in it, and of a gzipped one.
_DAMAGED = re.compile(r"(?:corrupted|truncated) record at \d+|inflate\(\) failed with error -?\d+")
# Of a file that was there when the data set was opened.
_GONE = re.compile(r"(?P<path>[^\s;]+); No such file or directory")
_REASON_LENGTH = 300
