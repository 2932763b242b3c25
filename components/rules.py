"""What does not fit together, as tables: a row is a condition and what is said of it.

A row names, as its condition's parameters, what it must know: groups of options, and facts of
images, of a data set or a graph, such as the kind of labels. For what is not known yet it waits:
the same table is checked where options are read, and again where a stage begins.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from image_pipeline.components.errors import UserError, raise_together


@dataclasses.dataclass(frozen=True)
class Rule:
    """What must not be.

    Attributes:
      broken: whether it is, of what its parameters name. It may give what the text says more.
      text: the rule, the value, the way out: a format of what is known, and of `found`, which
        `broken` gave.
    """

    broken: Callable[..., Any]
    text: str = "{found}"


def find_broken(rules: Iterable[Rule], **known: Any) -> list[str]:
    """What the broken rules say, in their order; those that need more than is known wait."""
    texts = []
    for rule in rules:
        needed = inspect.signature(rule.broken).parameters
        if needed.keys() <= known.keys() and (
            found := rule.broken(**{name: known[name] for name in needed})
        ):
            texts.append(rule.text.format(found=found, **known))
    return texts


def check(rules: Iterable[Rule], **known: Any) -> None:
    """Checks rules of what is known.

    Raises:
      UserError: if any is broken; it says all that are.
    """
    raise_together([UserError(text) for text in find_broken(rules, **known)])
