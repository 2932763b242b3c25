"""The base of every options class: frozen, validated, and strict about unknown keys.

Options live beside the code that reads them, in modules that import neither TensorFlow nor Beam,
so that the command line can read a configuration without waiting for either.
"""

from typing import Any

import pydantic


class Options(pydantic.BaseModel):
    """Immutable options; a wrong key or value raises `pydantic.ValidationError`."""

    model_config = pydantic.ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        allow_inf_nan=False,
    )


def leave_out_unset(dumped: dict[str, Any], options: Options, names: tuple[str, ...]) -> dict:
    """An options class's dump without these options where they have their default.

    Options that were added later: what was written or hashed before stays as it was.
    """
    fields = type(options).model_fields
    unset = [name for name in names if getattr(options, name) == fields[name].default]
    return {key: value for key, value in dumped.items() if key not in unset}
