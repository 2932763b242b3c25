"""Spans: folders or archives that arrive one after the other, found by a pattern: `day-{SPAN}`.

The patterns and the numbers are those of TFX's file-based ExampleGens, in
`tfx/components/example_gen/utils.py`: `{SPAN}`, `{SPAN:4}` of four digits, or `{YYYY}`, `{MM}` and
`{DD}`, a day's number being the days since 1970-01-01; and a `{VERSION}` beside one of them.
"""

import collections
import dataclasses
import datetime
import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence

from image_pipeline.components import files
from image_pipeline.components.errors import UserError

LATEST = "latest"
_DATE = ("YYYY", "MM", "DD")
_DIGITS = {"YYYY": 4, "MM": 2, "DD": 2}
_TOKEN = re.compile(r"\{(SPAN|VERSION|YYYY|MM|DD)(?::([^{}]*))?\}")
_ENDING = re.compile(r"\.[A-Za-z]\w*$")  # of an archive or a table
_FIRST_DAY = datetime.date(1970, 1, 1)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class SpanFolder:
    """One span's images.

    Attributes:
      span: its number.
      version: the highest one; None if the pattern has no `{VERSION}`.
      path: the folder, or its URI.
    """

    span: int
    version: int | None
    path: str


def has_span(images_dir: str) -> bool:
    """Tells whether the folder is a pattern of spans."""
    return _TOKEN.search(images_dir) is not None


def choose_span(pattern: str, span: str = LATEST) -> SpanFolder:
    """Finds the folder of a span.

    Args:
      pattern: of the spans' folders.
      span: its number, its date (2026-01-31) where the pattern has dates, or `LATEST`.

    Raises:
      UserError: if there is no such span, or the pattern or the span cannot be read.
    """
    return pick_span(list_spans(pattern), pattern, span)


def check_one_source(images: str) -> None:
    """Checks that one span's images are given where a pattern of spans cannot be used.

    Raises:
      UserError: if it is a pattern; it names the latest span that matches.
    """
    if has_span(images) and not files.exists(images):
        latest = list_spans(images)[-1].path
        raise UserError(
            f"{images!r} is a pattern of spans, of which only `run` chooses one itself; give a "
            f"span's own images here, such as {latest!r}."
        )


def pick_span(folders: Sequence[SpanFolder], pattern: str, span: str = LATEST) -> SpanFolder:
    """As `choose_span`, of the spans that `list_spans` has listed."""
    if span == LATEST:
        return folders[-1]
    number = read_span(span)
    for folder in folders:
        if folder.span == number:
            return folder
    nearest = sorted(folders, key=lambda folder: abs(folder.span - number))[:3]
    raise UserError(
        f"There is no span {span} of {pattern!r}; the nearest of {len(folders):,} are "
        f"{', '.join(folder.path for folder in sorted(nearest))}; give the number of one."
    )


def read_span(text: str) -> int:
    """A span's number from what the user wrote: the number itself, or a date.

    Raises:
      UserError: if it is neither.
    """
    if re.fullmatch(r"-?\d+", text):  # Days before 1970 are negative.
        return int(text)
    try:
        return (datetime.date.fromisoformat(text) - _FIRST_DAY).days
    except ValueError as error:
        raise UserError(
            f"A span is a number, a date such as 2026-01-31 or {LATEST!r}, got {text!r}; "
            "give one of these."
        ) from error


def name_span(pattern: str, span: str) -> str:
    """What people call a span: its date where the pattern is of dates, else its number."""
    if "{YYYY" not in pattern or not re.fullmatch(r"-?\d+", span):
        return span
    return str(_FIRST_DAY + datetime.timedelta(days=int(span)))


def list_spans(pattern: str) -> list[SpanFolder]:
    """Lists the spans that a pattern matches, by their numbers, each in its highest version.

    Names that the pattern does not match are ignored. In an object store, all files below the
    part before the first brace are listed.

    Raises:
      UserError: if the pattern is wrong, matches no folder, or matches two for the same span.
    """
    pattern = pattern.rstrip("/")
    _check_pattern(pattern)
    matches = match_spans(pattern, _list_folders(pattern))
    if not matches:
        raise UserError(f"No folder matches the pattern {pattern!r}; give one that matches.")
    return matches


def match_spans(pattern: str, folders: Iterable[str]) -> list[SpanFolder]:
    """The folders that match, by their spans' numbers, each span in its highest version.

    Raises:
      UserError: if a date does not exist, or two folders are the same span and version.
    """
    expression = re.compile(_to_expression(pattern))
    by_span: dict[int, list[SpanFolder]] = collections.defaultdict(list)
    for path in folders:
        if found := expression.fullmatch(path):
            folder = _read_folder(path, found.groupdict())
            by_span[folder.span].append(folder)
    latest = []
    for _, versions in sorted(by_span.items()):
        version = max(folder.version or 0 for folder in versions)
        same = [folder for folder in versions if (folder.version or 0) == version]
        if len(same) > 1:
            paths = sorted(folder.path for folder in same)
            raise UserError(f"{paths} are the same span; rename all but one.")
        latest += same
    return latest


def _check_pattern(pattern: str) -> None:
    """Raises UserError if the pattern breaks one of TFX's rules."""
    counts = collections.Counter(found[1] for found in _TOKEN.finditer(pattern))
    dates = [counts[name] for name in _DATE]
    if (counts["SPAN"], *dates) not in [(1, 0, 0, 0), (0, 1, 1, 1)] or counts["VERSION"] > 1:
        raise UserError(
            "A pattern of spans has either {SPAN} or all of {YYYY}, {MM} and {DD}, and perhaps "
            f"{{VERSION}}, each once, got {pattern!r}; correct the pattern."
        )
    for name, width in _TOKEN.findall(pattern):
        if width and (name in _DIGITS or not re.fullmatch(r"[1-9]\d?", width)):
            raise UserError(
                f"{{SPAN:4}} and {{VERSION:4}} mean four digits, got {name}:{width} in "
                f"{pattern!r}; correct the pattern."
            )


def _to_expression(pattern: str) -> str:
    """A regular expression with a group for each token."""
    expression, start = "", 0
    for found in _TOKEN.finditer(pattern):
        name, width = found.groups()
        digits = f"{{{width or _DIGITS[name]}}}" if width or name in _DIGITS else "+"
        expression += f"{re.escape(pattern[start : found.start()])}(?P<{name}>[0-9]{digits})"
        start = found.end()
    return expression + re.escape(pattern[start:])


def _read_folder(path: str, values: Mapping[str, str]) -> SpanFolder:
    version = int(values["VERSION"]) if "VERSION" in values else None
    if "SPAN" in values:
        return SpanFolder(int(values["SPAN"]), version, path)
    try:
        day = datetime.date(*(int(values[name]) for name in _DATE))
    except ValueError as error:
        raise UserError(f"The folder {path!r} names no date: {error}; rename it.") from error
    return SpanFolder((day - _FIRST_DAY).days, version, path)


def _list_folders(pattern: str) -> Iterable[str]:
    """The folders that may match; on an object store, all that are as deep as the pattern.

    Files may match, too, if the pattern has a file's ending, as `day-{SPAN}.tar` has.
    """
    may_be_files = _ENDING.search(pattern) is not None
    pieces = _TOKEN.sub("\0", pattern).split("\0")
    if files.is_local(pattern):
        found = glob.glob("*".join(map(glob.escape, pieces)))
        return [path for path in found if may_be_files or os.path.isdir(path)]
    fixed = pieces[0].rpartition("/")[0]
    depth = pattern.count("/") - fixed.count("/")
    paths = (path.split("/") for path, _, _ in files.list_remote_tree(fixed))
    least = depth if may_be_files else depth + 1
    return {"/".join([fixed, *path[:depth]]) for path in paths if len(path) >= least}
