"""What classes are called: names that mean one are joined by options, and likely slips are told."""

import unicodedata
from collections.abc import Iterator, Mapping

import pydantic

from image_pipeline.components.options import Options

_NO_CLASS = {"train", "test", "val", "valid", "validation", "data", "images", "image", "img"}
_MOST_SHOWN = 3


class ClassNameOptions(Options):
    """Which names of classes, tags and classes of boxes mean the same."""

    trim: bool = False
    """Whether blanks around a name, and more than one within it, are taken off."""
    fold_case: bool = False
    """Whether capital letters are written small."""
    normalise: bool = False
    """Whether a letter and its accent are one character, as Unicode's form NFC has them: names of
    macOS have two."""
    rename: dict[str, str] = pydantic.Field(default_factory=dict)
    """What names become, after all that: `{cats: cat}`."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> "ClassNameOptions":
        if chained := sorted(set(self.rename) & set(self.rename.values())):
            raise ValueError(
                f"labels.rename renames {chained[0]!r} and renames others to it; name the last "
                "name for each."
            )
        return self

    def join(self, name: str) -> str:
        """The name that stands for one."""
        if self.trim:
            name = " ".join(name.split())
        if self.normalise:
            name = unicodedata.normalize("NFC", name)
        if self.fold_case:
            name = name.lower()
        return self.rename.get(name, name)


def find_slips(counts: Mapping[str, int]) -> Iterator[str]:
    """What is likely a slip in the names of classes, a sentence each.

    Args:
      counts: images of each class.
    """
    ways = {
        "trim": lambda name: " ".join(name.split()),
        "normalise": lambda name: unicodedata.normalize("NFC", name),
        "fold_case": str.lower,
    }
    words = {"trim": "blanks", "normalise": "their Unicode form", "fold_case": "capital letters"}
    for option, join in ways.items():
        joined: dict[str, list[str]] = {}
        for name in counts:
            joined.setdefault(join(name), []).append(name)
        alike = [names for names in joined.values() if len(names) > 1]
        if alike:
            shown = "; ".join(" and ".join(map(repr, names)) for names in alike[:_MOST_SHOWN])
            more = f" and {len(alike) - _MOST_SHOWN:,} more" * (len(alike) > _MOST_SHOWN)
            told = f"classes that differ by {words[option]} alone: {shown}{more}"
            yield f"{told}; ingest.labels={{{option}: true}} joins them"
    if rare := sorted(name for name in counts if counts[name] == 1):
        shown = ", ".join(map(repr, rare[:_MOST_SHOWN])) + ", …" * (len(rare) > _MOST_SHOWN)
        is_one = "1 class has" if len(rare) == 1 else f"{len(rare):,} classes have"
        yield f"{is_one} a single image: {shown}; it is in one split alone"
    if strange := sorted(name for name in counts if name.strip().lower() in _NO_CLASS):
        shown = ", ".join(map(repr, strange))
        yield f"classes are called {shown}, as folders are that are none; see ingest.label_pattern"
