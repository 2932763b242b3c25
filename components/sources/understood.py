"""What a source was understood to mean, where a person could mean something else by it.

Whoever infers a meaning says it once, in a sentence; whoever lists the images collects these.
"""

import contextlib
import contextvars
from collections.abc import Iterator

_collected: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar(
    "collected", default=None
)


def understood(sentence: str) -> None:
    """Says what was inferred, and from what; where nobody collects, it is known already.

    Args:
      sentence: names the file or folder, what it was taken for, and by which option it may be
        taken otherwise; without a full stop.
    """
    collected = _collected.get()
    if collected is not None and sentence not in collected:
        collected.append(sentence)


@contextlib.contextmanager
def collect() -> Iterator[list[str]]:
    """The sentences that are said meanwhile, in their order, each once."""
    sentences: list[str] = []
    token = _collected.set(sentences)
    try:
        yield sentences
    finally:
        _collected.reset(token)
