"""A hash of the project's own code, for TFX's cache.

TFX reuses an output if parameters and inputs are the same; it does not see that an executor's
code, or code behind a dotted path, has changed. So each component carries this as a parameter.
"""

import hashlib
import pathlib

SOURCES = ("archives", "arrays", "generators", "record_files", "sources", "tables")
"""Where images come from."""
_OTHERS = (
    *("augment", "beam", "dataset", "evaluation", "feeding", "images", "inference"),
    *("ingest", "labels", "meaning", "models", "order", "served", "stores", "tasks", "training"),
    *("transform", "views"),
)
ROOMS = tuple(sorted((*SOURCES, *_OTHERS)))
# What every room imports.
_SHARED = ("beam", "dataset", "labels", "stores", "views")


def code_version(*rooms: str) -> str:
    """Hashes the source of some rooms and of what all share: 16 hexadecimal digits."""
    here = pathlib.Path(__file__).parent
    folders = [here, *(here / room for room in {*_SHARED, *rooms})]
    sources = [path for folder in folders for path in folder.glob("*.py")]
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.relative_to(here).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
