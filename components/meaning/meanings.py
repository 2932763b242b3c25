"""What a folder may mean, and how that is printed and asked."""

import dataclasses
import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.masks import (
    Masks,
)

FIRST_FOLDER = r"(?P<label>[^/]+)/.+"
"""The usual pattern of labels: a class is the first folder."""
ALL_OF_IT = r"(?P<label>[^/]+)/.*"  # The same, set by a person: nothing is inferred then.
ENOUGH = 0.9  # of the images must fit what is inferred
_MOST_SHOWN = 6
SPLITS = ("train", "eval", "test")
CLASS_FOLDERS, SPLIT_FOLDERS = "class folders", "split folders"
IN_FILE_NAMES, NO_CLASSES = "class in the file name", "no classes"
WITH_MASKS = "image/mask pairs"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Meaning:
    """What folders mean, as options of ingest would say it.

    Attributes:
      kind: in a few words.
      label_pattern: that finds the class in a path; None if nothing names classes.
      split_pattern: that finds the split; None if nothing names splits.
      splits: folders that it finds, each with the pipeline's name for its split.
      leave_out: folders whose images have no place in this.
      masks: those of the images, if that is what they are for.
      inferred: what was inferred, a sentence each.
    """

    kind: str
    label_pattern: str | None = FIRST_FOLDER
    split_pattern: str | None = None
    splits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    leave_out: tuple[str, ...] = ()
    masks: Masks | None = None
    inferred: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """Those that say the same, but for the defaults."""
        options: dict[str, Any] = {"label_pattern": self.label_pattern}
        if self.masks is not None and self.masks.templates is not None:
            options = {"masks": dict(zip(("images", "masks"), self.masks.templates, strict=True))}
            if self.masks.classes is not None:
                options["masks"]["classes"] = self.masks.classes
        if self.split_pattern is not None:
            names = choose_eval(self.splits)
            options |= {"split_pattern": self.split_pattern, "splits": share_splits(names)}
            options["split_names"] = {each: name for each, name in names.items() if each != name}
        return options | ({"leave_out": self.leave_out} if self.leave_out else {})


@dataclasses.dataclass(frozen=True)
class Choice:
    """One thing that a folder may mean.

    Attributes:
      words: for messages and questions.
      meaning: of the whole folder; None where a part of it is to be given instead.
      images: that part; "" for the whole folder.
    """

    words: str
    meaning: Meaning | None = None
    images: str = ""

    def say(self, images: str) -> str:
        """How a person says it, on the command line and in Python."""
        if self.meaning is None and files.is_local(images) and os.path.isfile(images):
            return f"unpack {images!r}, and ingest its {self.images}"
        if self.meaning is None:
            return f"ingest {shlex.quote(files.join(images, self.images))}"
        dumped = ((name, json.dumps(value)) for name, value in self.meaning.options().items())
        return f"set {' '.join(shlex.quote(f'ingest.{name}={value}') for name, value in dumped)}"


class UnclearLayout(UserError):
    """A folder may mean several things; see `choices`."""

    def __init__(self, images: str, found: str, choices: Sequence[Choice]):
        """Names what was found, and each meaning with what says it."""
        ways = "; ".join(f"for {each.words}, {each.say(images)}" for each in choices)
        super().__init__(f"{images!r} may mean several things: {found}. Say which: {ways}.")
        self.found, self.choices = found, tuple(choices)


def choose_eval(named: Mapping[str, str]) -> dict[str, str]:
    """Training needs a split to evaluate on: a test split, if there is no other."""
    if "eval" in named.values():
        return dict(named)
    return {folder: "eval" if name == "test" else name for folder, name in named.items()}


def share_splits(named: Mapping[str, str]) -> dict[str, float]:
    """The shares of splits that folders name: for images, if any, that are in none of these."""
    splits = [name for name in SPLITS if name in named.values()]
    shares = {2: (0.9, 0.1), 3: (0.8, 0.1, 0.1)}.get(len(splits), (1 / len(splits),) * len(splits))
    return dict(zip(splits, shares, strict=True))


def say_splits(splits: Mapping[str, str]) -> str:
    """The folders, and what their splits are called here."""
    named, shown = choose_eval(splits), []
    for folder, name in named.items():
        why = ", since there is no other to evaluate on" * (splits[folder] != name)
        shown.append(f"{folder}/" if folder == name else f"{folder}/ ({name}{why})")
    return list_names(shown)


def list_folders(folders: Iterable[str]) -> str:
    """The first of some folders, for messages."""
    return list_names(f"{folder}/" for folder in folders)


def list_names(names: Iterable[str]) -> str:
    """The first of some names, for messages."""
    shown = list(map(str, names))
    more = f" and {len(shown) - _MOST_SHOWN:,} more" * (len(shown) > _MOST_SHOWN)
    return ", ".join(shown[:_MOST_SHOWN]) + more
