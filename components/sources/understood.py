"""What a source was understood to mean, where a person could mean something else by it.

Whoever infers a meaning says it once, in a sentence; whoever lists the images collects these.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Said:
    """Sentences in the order in which they were said, each once.

    Attributes:
      understood: what was inferred, which is kept with the data set.
      noticed: what is worth a look, and decides nothing.
    """

    understood: list[str] = dataclasses.field(default_factory=list)
    noticed: list[str] = dataclasses.field(default_factory=list)


_collected: contextvars.ContextVar[Said | None] = contextvars.ContextVar("collected", default=None)


def understood(sentence: str) -> None:
    """Says what was inferred, and from what; where nobody collects, it is known already.

    Args:
      sentence: names the file or folder, what it was taken for, and by which option it may be
        taken otherwise; without a full stop.
    """
    said = _collected.get()
    if said is not None and sentence not in said.understood:
        said.understood.append(sentence)


def noticed(sentence: str) -> None:
    """Says what lies beside the images, or is likely a mistake in them."""
    said = _collected.get()
    if said is not None and sentence not in said.noticed:
        said.noticed.append(sentence)


@contextlib.contextmanager
def collect() -> Iterator[Said]:
    """What is said meanwhile; what is noticed is so by whoever collects around it, too."""
    said = Said()
    token = _collected.set(said)
    try:
        yield said
    finally:
        _collected.reset(token)
    for sentence in said.noticed:
        noticed(sentence)
