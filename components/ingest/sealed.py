"""What later runs trust of the working folder, with checksums: damage is as good as absence."""

import json
from typing import Any

import google_crc32c

from image_pipeline.components import files


def write_sealed(path: str, value: Any) -> None:
    """Writes a value as JSON behind its CRC-32C; raises as `files.write_file`."""
    text = json.dumps(value).encode()
    files.write_file(path, b"%08x %b" % (google_crc32c.value(text), text))


def read_sealed(path: str) -> Any:
    """Reads what `write_sealed` wrote; None if there is no such file, or it is damaged."""
    try:
        seal, _, text = files.read_file(path).partition(b" ")
    except FileNotFoundError:
        return None
    return json.loads(text) if seal == b"%08x" % google_crc32c.value(text) else None


def sum_file(path: str) -> int:
    """The CRC-32C of a file's bytes; if it is not there, that of an empty one."""
    try:
        return google_crc32c.value(files.read_file(path))
    except FileNotFoundError:
        return google_crc32c.value(b"")
