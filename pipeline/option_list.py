"""Every option of the configuration, with its default, unit and meaning, read from its class."""

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pydantic_core
import yaml
from pydantic.fields import FieldInfo

from image_pipeline.components.augment.options import STEPS, UserStep
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import suggest
from image_pipeline.components.options import Options, groups_in, is_group
from image_pipeline.config import PipelineConfig

_AUGMENT = "feeding.augment"
_UNITS = {
    "_px": "pixels",
    "_s": "seconds",
    "_hz": "hertz",
    "bytes": "bytes",
    "degrees": "degrees",
    "minutes": "minutes",
}
_OR_NULL = ", or null"
_LIST_OF_STEPS = "list of steps, each a name or a mapping with the name as `op`"
_UNIONS = (typing.Union, types.UnionType)
_KINDS: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Any: "anything",
}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


@dataclasses.dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
      key: as `--set` takes it, such as `training.epochs`; of a random step, below its name.
      default: in YAML; empty if the option must be given.
      kind: what its values are, in words, with their unit.
      meaning: what it does.
      values: all of its values, in YAML, if they are few.
    """

    key: str
    default: str
    kind: str
    meaning: str
    values: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class OptionGroup:
    """Options that stand together in the configuration; the whole of it has the key "".

    Attributes:
      key: such as `training.fine_tuning`.
      meaning: what the group is for.
      options: without those of the groups within it.
      like: the key of an earlier group with the same options, such as the defaults of all steps.
      names: what `<name>` in the keys stands for, if not all names are allowed.
    """

    key: str
    meaning: str
    options: tuple[Option, ...]
    like: str = ""
    names: tuple[str, ...] = ()


def list_options() -> list[OptionGroup]:
    """All options, group by group, as they stand in the configuration."""
    return list(_walk("", PipelineConfig, PipelineConfig()))


def list_settable() -> Iterator[Option]:
    """The options with a path of their own in the YAML: not those in lists, nor of free names."""
    for group in list_options():
        for option in group.options:
            keys = [option.key.replace("<name>", name) for name in group.names] or [option.key]
            for key in keys:
                if not (key.startswith(f"{_AUGMENT}.") or {*key} & {*"<["}):
                    yield dataclasses.replace(option, key=key)


def find_options(key: str) -> list[OptionGroup]:
    """The options that a key, a group's key, or a part of a key names.

    Args:
      key: such as `training.epochs`, `training`, `cutout` or `epoch`; a step of Kubeflow's may be
        named in it.

    Raises:
      UserError: if it names none.
    """
    groups, key = list_options(), key.strip(".")
    names = {name for group in groups for name in group.names}
    listed = ".".join("<name>" if part in names else part for part in key.split("."))
    tests = (
        lambda own: own == listed or own.startswith(f"{listed}."),
        lambda own: f".{listed}." in f".{own}.",
        lambda own: listed.lower() in own.lower(),
    )
    for test in tests:
        if key and (found := [kept for group in groups if (kept := _keep(group, test))]):
            return found
    known = [option.key for group in groups for option in group.options]
    hint = suggest(key, known) or suggest(key, [own.rpartition(".")[2] for own in known])
    raise UserError(f"there is no option {key!r}; {hint}`image-pipeline options` lists all.")


def first_sentence(meaning: str) -> str:
    """The first sentence of what an option means, without its full stop."""
    return re.split(r"(?<!e\.g)\.(?:\s|$)", meaning, maxsplit=1)[0]


def _keep(group: OptionGroup, test: Callable[[str], bool]) -> OptionGroup | None:
    kept = tuple(option for option in group.options if test(option.key))
    return dataclasses.replace(group, options=kept) if kept else None


def _walk(
    key: str, group: type[Options], defaults: Any = None, names: tuple[str, ...] = ()
) -> Iterator[OptionGroup]:
    """A group, and then those within it.

    Args:
      key: the group's.
      group: its class.
      defaults: the group as it is by default; None if it is left out, for the class's own.
      names: what `<name>` in the key stands for.
    """
    prefix = f"{key}." if key else ""
    # A step's name has but one value, which is not a choice.
    fields = {name: each for name, each in group.model_fields.items() if not _is_fixed(each)}
    plain = {name: each for name, each in fields.items() if not is_group(each.annotation)}
    yield OptionGroup(
        key,
        _flatten(group.__doc__),
        tuple(_describe(prefix + name, each, defaults) for name, each in plain.items()),
        names=names,
    )
    first: dict[type[Options], str] = {}
    for name, field in fields.items():
        keyed = typing.get_origin(field.annotation) is dict
        allowed = _few_values(typing.get_args(field.annotation)[0]) if keyed else names
        for suffix, inner in groups_in(field.annotation):
            own = f"{prefix}{name}{suffix}"
            same = first.setdefault(inner, own)
            default = None if suffix else getattr(defaults, name, None)
            for each in _walk(own, inner, default, allowed):
                like = each.key.replace(own, same, 1) if same != own else each.like
                yield dataclasses.replace(each, like=like)
        if f"{prefix}{name}" == _AUGMENT:
            steps: dict[str, type[Options]] = {**STEPS, "<dotted path>": UserStep}
            for step, kind in steps.items():
                yield from _walk(f"{_AUGMENT}.{step}", kind)


def _describe(key: str, field: FieldInfo, defaults: Any) -> Option:
    name = key.rpartition(".")[2]
    kind, null, _ = _kind(field.annotation).partition(_OR_NULL)
    kind += _say_bounds(field)
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), None)
    kind = _LIST_OF_STEPS if key == _AUGMENT else f"{kind}, in {unit}" if unit else kind
    values = tuple(map(to_yaml, _few_values(field.annotation)))
    return Option(
        key, _default(name, field, defaults), kind + null, _flatten(field.description), values
    )


def _default(name: str, field: FieldInfo, defaults: Any) -> str:
    if defaults is not None:
        return to_yaml(getattr(defaults, name))
    value = field.get_default(call_default_factory=True, validated_data={})
    return "" if value is pydantic_core.PydanticUndefined else to_yaml(value)


def to_yaml(value: object) -> str:
    """A value on one line."""
    plain = pydantic_core.to_jsonable_python(value)
    text = yaml.safe_dump(plain, default_flow_style=True, width=10**6, sort_keys=False)
    return text.removesuffix("\n").removesuffix("...").strip()


def _flatten(text: str | None) -> str:
    return " ".join((text or "").split())


def _is_fixed(field: FieldInfo) -> bool:
    return (
        typing.get_origin(field.annotation) is Literal and len(_few_values(field.annotation)) == 1
    )


def _few_values(annotation: Any) -> tuple[Any, ...]:
    """The values that have names of their own."""
    if annotation in (bool, type(None)):
        return (True, False) if annotation is bool else (None,)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return parts
    within = parts if origin in (*_UNIONS, typing.Annotated) else ()
    return tuple(value for part in within for value in _few_values(part))


def _kind(annotation: Any) -> str:
    """What values are, in words."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        field = FieldInfo.from_annotation(annotation)
        return f"{_kind(field.annotation)}{_say_bounds(field)}"
    if origin in _UNIONS:
        others = [_kind(part) for part in parts if part is not type(None)]
        return " or ".join(others) + _OR_NULL * (type(None) in parts)
    if origin is Literal:
        return " or ".join(f"`{to_yaml(part)}`" for part in parts)
    if origin is dict:
        return f"mapping of {_kind(parts[0])} to {_kind(parts[1])}"
    if origin in (tuple, list):
        count = f" of {len(parts)}" if origin is tuple and parts[-1] is not Ellipsis else ""
        return f"list{count} ({_kind(parts[0])})"
    return "group" if is_group(annotation) else _KINDS.get(annotation, "anything")


def _say_bounds(field: FieldInfo) -> str:
    found = [
        f", {words} {bound:,}"
        for each in field.metadata
        for name, words in _BOUNDS.items()
        if (bound := getattr(each, name, None)) is not None
    ]
    return "".join(found)
