"""Options that are lists of images' paths: given as they are, or by the file that has them."""

from typing import Annotated, Any

import pydantic

from image_pipeline.components import files
from image_pipeline.components.names import decode_name


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
