"""Settings measured in turn, round by round, so that disturbances affect all alike."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping

_ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class Trial:
    """One setting of a sweep.

    Attributes:
      setting: its value.
      images_per_s: median of the rounds.
      ratio: to the present setting (or else the first), the median of the rounds' ratios.
      least, most: the extremes of those ratios.
      is_present: whether it is the present setting.
      note: what else is known about it; "" for nothing.
    """

    setting: str
    images_per_s: float
    ratio: float
    least: float
    most: float
    is_present: bool
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A setting's sweep.

    Attributes:
      name: the setting's name.
      of: what was measured with each value.
      trials: one for each value, in order.
    """

    name: str
    of: str
    trials: tuple[Trial, ...]


def race(settings: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Measures each setting once per round.

    Args:
      settings: value to a function that measures it, in images per second.

    Returns:
      Value to its result in each round.
    """
    rounds = [{value: measure() for value, measure in settings.items()} for _ in range(_ROUNDS)]
    return {value: [figures[value] for figures in rounds] for value in settings}


def compare(
    name: str,
    of: str,
    figures: Mapping[str, list[float]],
    present: str,
    notes: Mapping[str, str] | None = None,
) -> Sweep:
    """Compares each setting's results with the present one's in the same rounds."""
    base = figures.get(present) or next(iter(figures.values()))
    trials = []
    for value, own in figures.items():
        ratios = [mine / theirs for mine, theirs in zip(own, base, strict=True)]
        trials.append(
            Trial(
                setting=value,
                images_per_s=statistics.median(own),
                ratio=statistics.median(ratios),
                least=min(ratios),
                most=max(ratios),
                is_present=value == present,
                note=(notes or {}).get(value, ""),
            )
        )
    return Sweep(name, of, tuple(trials))
