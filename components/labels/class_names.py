"""Names of classes: options join those that mean one class, and likely slips are reported."""

import collections
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence

import pydantic

from image_pipeline.components.errors import UserError
from image_pipeline.components.options import Options

_NO_CLASS = {
    *("train", "test", "val", "valid", "validation", "data", "images", "image", "img"),
    "background_google",  # Caltech-101's pictures of anything
}
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
    min_images: pydantic.NonNegativeInt = 0
    """Images of a class that has fewer are skipped as `rare_class`. Not for tags and boxes."""
    rare: tuple[str, ...] = ()
    """The classes that have fewer. Ingest fills it in."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> "ClassNameOptions":
        if chained := sorted(set(self.rename) & set(self.rename.values())):
            raise ValueError(
                f"labels.rename renames {chained[0]!r} and renames others to it; map each "
                "to its final name."
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


def check_classes(classes: Collection[str], are_tags: bool) -> None:
    """Refuses names that are not names, but rows of 0 and 1.

    Raises:
      UserError: if they are.
    """
    names = [name for name in classes if name]
    are_bits = set(names) <= {"0", "1"} and are_tags
    if names and (are_bits or all(map(_ROW_OF_BITS.fullmatch, names))):
        raise UserError(
            "The label has lists of 0 and 1, which name no class; write the name or the number of "
            "the class instead, or a column a class (ingest.label_columns). Or by ingest.columns: "
            "{label: …} names another label, and {label: null} takes none."
        )


def find_slips(
    counts: Mapping[str, int], are_folders: bool = False, are_tags: bool = False
) -> Iterator[str]:
    """What is likely a slip in the names of classes, a sentence each.

    Args:
      counts: images of each class; 0 where that is not known. "" is not a class.
      are_folders: whether they are names of folders: a table's may be vehicles.
      are_tags: whether they are tags, which cannot be left out.
    """
    counts = {name: count for name, count in counts.items() if name}
    yield from _find_alike(counts)
    if rare := sorted(name for name in counts if counts[name] == 1):
        shown = ", ".join(map(repr, rare[:_MOST_SHOWN])) + ", …" * (len(rare) > _MOST_SHOWN)
        is_one = "1 class has" if len(rare) == 1 else f"{len(rare):,} classes have"
        way = "; ingest.labels={min_images: 2} leaves it out" * (not are_tags)
        yield f"{is_one} a single image: {shown}; it is in one split alone{way}"
    if are_folders and (strange := sorted(n for n in counts if n.strip().lower() in _NO_CLASS)):
        shown = ", ".join(map(repr, strange))
        yield f"classes are called {shown}, as folders of no class are; see ingest.label_pattern"


def _find_alike(counts: Mapping[str, int]) -> Iterator[str]:
    """The names that options make one, with these; and those that are nearly the same."""
    alike: dict[str, list[str]] = collections.defaultdict(list)
    similar: dict[str, list[str]] = collections.defaultdict(list)
    for name in counts:
        alike[_EVERY.join(name)].append(name)
    for name in alike:
        if words := " ".join(_WORD.findall(name.replace("_", " "))):
            similar[words].append(name)
    groups = [names for names in alike.values() if len(names) > 1]
    if groups:
        needed = [option for option in _WORDS if any(option in _needed(each) for each in groups)]
        differences = _and([_WORDS[option] for option in needed])
        ways = ", ".join(f"{option}: true" for option in needed)
        shown = _show([_and(list(map(repr, names))) for names in groups])
        yield (
            f"classes differ by {differences} alone: {shown}; ingest.labels='{{{ways}}}' joins them"
        )
    for names in (names for names in similar.values() if len(names) > 1):
        own = [max(alike[each], key=lambda name: counts[name]) for each in names]
        usual = max(own, key=lambda name: counts[name])
        ways = ", ".join(f"{name!r}: {usual!r}" for name in own if name != usual)
        shown = _and(list(map(repr, own)))
        yield f'classes are nearly the same: {shown}; ingest.labels.rename="{{{ways}}}" joins them'


def _needed(names: Sequence[str]) -> tuple[str, ...]:
    """The fewest options that make names one."""
    every = [chosen for count in (1, 2, 3) for chosen in itertools.combinations(_WORDS, count)]
    for chosen in every:
        options = ClassNameOptions.model_validate(dict.fromkeys(chosen, True))
        if len({options.join(name) for name in names}) == 1:
            return chosen
    return ()


def _show(items: Sequence[str]) -> str:
    more = len(items) - _MOST_SHOWN
    return "; ".join(items[:_MOST_SHOWN]) + f" and {more:,} more" * (more > 0)


def _and(items: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))


_EVERY = ClassNameOptions(trim=True, fold_case=True, normalise=True)
_WORDS = {"trim": "blanks", "normalise": "their Unicode form", "fold_case": "capital letters"}
_WORD = re.compile(r"[^\W_]+(?:[^\w\s-]+)?")  # `c++` is a word
_ROW_OF_BITS = re.compile(r"\[\s*[01](\.0*)?(?:[\s,]+[01](\.0*)?)+\s*\]")
