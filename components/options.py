"""The base of every options class: frozen, validated, and strict about unknown keys.

Options live beside the code that reads them, in modules that import neither TensorFlow nor Beam,
so that the command line can read a configuration without waiting for either.
"""

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
