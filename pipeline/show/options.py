"""Options as text: a line each in the terminal, or in full there and as a page of the docs."""

import textwrap
from collections.abc import Iterator, Sequence

from image_pipeline.option_list import Option, OptionGroup, first_sentence

_HEAD = """\
# Options

Which options are there, and what does each do?

This page is written by `make options` from the classes that read the options, as
`image-pipeline options` prints them: `image-pipeline options training` shows a group,
`image-pipeline options epochs` all keys with that word. They go in a YAML file (`--config`), nested
at the dots, or on the command line: `--set training.epochs=3`. A random step's options go beside
its name in the list `feeding.augment`: `{op: cutout, fill: 128}`.
"""
_WHOLE = "The pipeline"
_KEY_COLUMNS = 40
_WIDTH = 100


def list_lines(groups: Sequence[OptionGroup]) -> Iterator[str]:
    """A line for each option: its key, its default, and what it is in a sentence."""
    for group in _without_likes(groups):
        yield f"# {_title(group.key, first_sentence(group.meaning))}"
        for option in group.options:
            start = f"{option.key}: {_shorten(option.default, 24)}".ljust(_KEY_COLUMNS)
            room = max(24, _WIDTH - len(start) - 2)
            yield f"{start}  {_shorten(first_sentence(option.meaning), room)}"
        yield from _say_likes(group, groups)
        yield ""


def describe_lines(groups: Sequence[OptionGroup]) -> Iterator[str]:
    """All that is known of some options."""
    for group in _without_likes(groups):
        yield from textwrap.wrap(f"# {_title(group.key, group.meaning)}", _WIDTH)
        for option in group.options:
            yield f"{option.key}: {option.default}".rstrip()
            yield from _indent(_say_kind(option))
            yield from _indent(option.meaning)
        yield from _say_likes(group, groups)
        yield ""


def write_page(groups: Sequence[OptionGroup]) -> str:
    """The page of the docs."""
    lines = [_HEAD]
    for group in _without_likes(groups):
        lines += [f"## {f'`{group.key}`' if group.key else _WHOLE}", "", group.meaning, ""]
        for option in group.options:
            default = f"default `{option.default}`; " if option.default else ""
            kind = f"{default}{_say_kind(option)}"
            lines.append(f"- **`{option.key}`**, {kind}  ")
            lines += textwrap.wrap(
                option.meaning, _WIDTH, initial_indent="  ", subsequent_indent="  "
            )
        lines += ["", *_say_likes(group, groups), ""]
    text = "\n".join(lines)
    return "\n".join(
        part.rstrip() if not part.endswith("  ") else part for part in text.split("\n")
    )


def _title(key: str, meaning: str) -> str:
    return f"{key or _WHOLE}: {meaning}"


def _say_kind(option: Option) -> str:
    return option.kind if option.default else f"{option.kind}; must be given"


def _without_likes(groups: Sequence[OptionGroup]) -> list[OptionGroup]:
    """The groups without those that only repeat another one of them."""
    keys = {group.key for group in groups}
    return [group for group in groups if group.options and group.like not in keys - {""}]


def _say_likes(group: OptionGroup, groups: Sequence[OptionGroup]) -> Iterator[str]:
    if likes := [each.key for each in groups if each.like == group.key and each.like]:
        yield from textwrap.wrap(f"The same for {', '.join(likes)}.", _WIDTH)


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def _indent(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")
