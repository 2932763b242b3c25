"""Settings measured in turn, round by round: what disturbs the machine then disturbs them all."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping

_ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class Trial:
    """One setting of a sweep.

    Attributes:
      setting: its value.
      images_per_s: with it, the median of the rounds.
      ratio: to the present setting (else the first), the median of each round's ratios.
      least, most: of those ratios: how far the rounds differ.
      is_present: whether it is the present setting.
      note: what else is known of it; "" for nothing.
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
      name: name of the setting.
      of: what was measured with each value.
      trials: in the order of the values.
    """

    name: str
    of: str
    trials: tuple[Trial, ...]


def race(settings: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Measures each setting once a round.

    Args:
      settings: value to what measures it, in images a second.

    Returns:
      Value to its figure in each round.
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
    """Puts each setting's figures beside those that the present one had in the same rounds."""
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
