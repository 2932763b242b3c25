"""What a source was understood to mean, where a person could mean something else by it.

Whoever infers a meaning says it once, in a sentence; whoever lists the images collects these.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Notes:
    """Sentences for the person who ingests, in order, each once.

    Attributes:
      understood: what was inferred, which is kept with the data set.
      noticed: what is worth a look, and decides nothing.
    """

    understood: list[str] = dataclasses.field(default_factory=list)
    noticed: list[str] = dataclasses.field(default_factory=list)


_collected: contextvars.ContextVar[Notes | None] = contextvars.ContextVar("collected", default=None)


def understood(sentence: str) -> None:
    """Says what was inferred, and from what; where nobody collects, it is known already.

    Args:
      sentence: names the file or folder, what it was taken for, and by which option it may be
        taken otherwise; without a full stop.
    """
    notes = _collected.get()
    if notes is not None and sentence not in notes.understood:
        notes.understood.append(sentence)


def noticed(sentence: str) -> None:
    """Says what lies beside the images, or is likely a mistake in them."""
    notes = _collected.get()
    if notes is not None and sentence not in notes.noticed:
        notes.noticed.append(sentence)


@contextlib.contextmanager
def collect() -> Iterator[Notes]:
    """Collects the notes made meanwhile; what is noticed goes to an enclosing `collect`, too."""
    notes = Notes()
    token = _collected.set(notes)
    try:
        yield notes
    finally:
        _collected.reset(token)
    for sentence in notes.noticed:
        noticed(sentence)
