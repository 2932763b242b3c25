"""The base of every options class: frozen, validated, and strict about unknown keys.

Options live beside the code that reads them, in modules that import neither TensorFlow nor Beam,
so that the command line can read a configuration without waiting for either.
"""

import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeGuard, TypeVar

import pydantic

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import show, suggest
from image_pipeline.components.names import decode_name
from image_pipeline.components.rules import Rule, find_broken

_MOST_LINES = 20  # of a message
# What Keras's image_dataset_from_directory calls options, and what they are here.
_ELSEWHERE = {
    "class_names": 'classes=["…", "…"] of ingest',
    "color_mode": 'view={"channels": 3}, or 1 for gray',
    "crop_to_aspect_ratio": 'prepare={"resize": "exact", "size_px": …} of ingest for False, and '
    "nothing for True",
    "directory": "the first argument of ingest",
    "image_size": 'view={"height_px": …, "width_px": …}',
    "label_mode": 'labels="one_hot" of input_fn for "categorical", and labels="ids" for "int"',
    "shuffle": 'mode="eval" of input_fn for False, which reads in order, and mode="train" for True',
    "subset": 'split="train" or split="eval" of input_fn',
    "validation_split": 'splits={"train": 0.8, "eval": 0.2} of ingest',
}
_MOST_SHOWN = 200  # characters of a key


class Options(pydantic.BaseModel):
    """Immutable options; a wrong key or value raises `pydantic.ValidationError`."""

    model_config = pydantic.ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        allow_inf_nan=False,
    )
    rules: ClassVar[Sequence[Rule]] = ()
    """What its options exclude among themselves; a condition's parameter is `options`."""

    @pydantic.model_validator(mode="after")
    def _keep_rules(self) -> Self:
        if broken := find_broken(self.rules, options=self):
            raise ValueError("\n".join(broken))
        return self

    def is_set(self, name: str) -> bool:
        """Whether an option has another value than its default."""
        field = type(self).model_fields[name]
        return getattr(self, name) != field.get_default(call_default_factory=True)


Group = TypeVar("Group", bound=Options)


def is_group(annotation: Any) -> TypeGuard[type[Options]]:
    """Whether an option with this annotation is a group of options."""
    return isinstance(annotation, type) and issubclass(annotation, Options)


def groups_in(annotation: Any, suffix: str = "") -> Iterator[tuple[str, type[Options]]]:
    """The groups among an option's values, and what their keys have after the option's.

    Of `dict[str, Disk] | None` that is `(".<name>", Disk)`.
    """
    if is_group(annotation) and annotation is not Options:
        yield suffix, annotation
    origin = typing.get_origin(annotation)
    within = {dict: ".<name>", tuple: "[]", list: "[]"}.get(origin, "")
    for part in typing.get_args(annotation) if origin is not Literal else ():
        yield from groups_in(part, suffix + within)


def read_options(kind: type[Group], group: str, given: Group | Mapping[str, Any] | None) -> Group:
    """The options of a group, as a person gives them in Python.

    Args:
      kind: the group's class.
      group: its name in a configuration.
      given: the options, some of them by their keys, or None for the defaults.

    Raises:
      UserError: naming the key, the value and what to do.
    """
    try:
        values = dict(given or {}) if given is None or isinstance(given, Mapping) else given
        return kind.model_validate(values)
    except pydantic.ValidationError as error:
        raise explain_invalid(error, kind, group) from error


def explain_invalid(
    error: pydantic.ValidationError, kind: type[Options], *within: str
) -> UserError:
    """All of pydantic's findings in words, for the whole tree or for a group in it."""
    found = error.errors()
    lines = [_explain(each, kind, within) for each in found[:_MOST_LINES]]
    if len(found) > _MOST_LINES:
        lines.append(f"  and {len(found) - _MOST_LINES:,} more")
    return UserError("\n".join(["The configuration is not valid:", *lines]))


def _explain(error: Mapping[str, Any], kind: type[Options], within: Sequence[str]) -> str:
    """One of pydantic's findings in words, as a line."""
    location = ".".join(str(part)[:_MOST_SHOWN] for part in (*within, *error["loc"]))
    key = str(error["loc"][-1]) if error["loc"] else ""
    if error["type"] != "extra_forbidden":
        message = error["msg"].removeprefix("Value error, ")
        if error["type"] == "value_error":
            return "\n".join(f"  {location or 'config'}: {line}" for line in message.split("\n"))
        hint = f"; the equivalent here is {_ELSEWHERE[key]}" if key in _ELSEWHERE else ""
        return f"  {location}: {message}, got {show(error['input'])}{hint}"
    known = _known_keys(kind, error["loc"][:-1])
    hint = f"here that is {_ELSEWHERE[key]}; " if key in _ELSEWHERE else suggest(key, known)
    return f"  {location}: unknown key; {hint}known: {', '.join(known)}"


def _known_keys(group: type[Options], location: Sequence[str | int]) -> list[str]:
    """The keys that exist at a place in the tree of a group."""
    for part in location:
        # All others are names in a mapping and places in a list.
        if field := group.model_fields.get(str(part)):
            group = next((kind for _, kind in groups_in(field.annotation)), group)
    return list(group.model_fields)


def leave_out_unset(dumped: dict[str, Any], options: Options, names: tuple[str, ...]) -> dict:
    """An options class's dump without these options where they have their default.

    Options that were added later: what was written or hashed before stays as it was.
    """
    unset = [name for name in names if not options.is_set(name)]
    return {key: value for key, value in dumped.items() if key not in unset}


def parse_paths(content: bytes) -> tuple[str, ...]:
    """The paths in a text file of one a line, each once and sorted; empty lines are left out."""
    lines = (line.removesuffix(b"\r") for line in content.split(b"\n"))
    return tuple(sorted({decode_name(line) for line in lines if line}))


def _read_named(value: Any) -> Any:
    """Reads the file that an option names; any other value is left to pydantic's check.

    The option then holds the paths themselves: so results of different lists are distinguished,
    and the machines of a cluster need no file.
    """
    if not isinstance(value, str):
        return value
    try:
        return parse_paths(files.read_file(value))
    except OSError as error:
        raise ValueError(
            f"it must be a list of paths, or a text file with a path a line, but {value!r} cannot "
            f"be read ({error.strerror or error}); write one with `image-pipeline browse`."
        ) from error


PathList = Annotated[tuple[str, ...], pydantic.BeforeValidator(_read_named)]
"""Paths as `source` of the index has them, or the name of a text file with a path a line."""
