"""A hash of a user's function, for TFX's cache, which does not see code behind a dotted path."""

import hashlib
import pathlib

from image_pipeline.components import files
from image_pipeline.components.named_modules import find_module


def function_version(dotted_path: str) -> str:
    """Hashes the source file that a dotted path's module is in; modules it imports are not seen.

    Returns:
      16 hexadecimal digits; zeros if there is no such file, which the analysis will report.
    """
    try:
        spec = find_module(dotted_path.rpartition(".")[0])
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.has_location or not spec.origin:
        return "0" * 16
    return hashlib.sha256(pathlib.Path(spec.origin).read_bytes()).hexdigest()[:16]


def images_version(images: str) -> str:
    """The same of the function that is given as images, as `rows:MODULE:FUNCTION`; else ""."""
    if not images.startswith(files.CODE_PREFIXES):
        return ""
    module, function = [*images.split(":"), ""][1:3]
    return function_version(f"{module}.{function}")
