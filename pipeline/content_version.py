"""A hash of files that an option names, for TFX's cache, which sees only their paths."""

import hashlib

from image_pipeline.components import files
from image_pipeline.components.trees import list_names


def content_version(path: str) -> str:
    """Hashes a file, or all files of a folder, here or in a store.

    Returns:
      16 hexadecimal digits; zeros if there is no such file, which the Trainer will report.
    """
    names = [""] if files.is_file(path) else list_names(path)
    if not names:
        return "0" * 16
    digest = hashlib.sha256()
    for name in names:
        digest.update(name.encode(errors="surrogateescape") + b"\0")
        for block in files.read_blocks(files.join(path, name) if name else path):
            digest.update(block)
    return digest.hexdigest()[:16]
