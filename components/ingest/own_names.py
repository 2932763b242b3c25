"""Whether each image has a name of its own: books, retries and fixes tell images by their names."""

import array
import os
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from image_pipeline.components.errors import UserError


class Names:
    """The names of images, of which 8 bytes each are held."""

    def __init__(self) -> None:
        """Begins without any."""
        self._hashes = array.array("q")

    def add(self, rows: pa.Table) -> None:
        """Notes the names in rows; what is not written may be called as it likes."""
        self._hashes.extend(map(hash, _usable(rows)))

    def check(self, tables: Iterable[pa.Table]) -> None:
        """Refuses names that several images have.

        Args:
          tables: the rows once more, which are read only if it seems so.
        """
        ordered = np.sort(np.frombuffer(self._hashes, np.int64))
        repeated = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        if not repeated:
            return
        seen: set[bytes] = set()
        for name in (name for rows in tables for name in _usable(rows)):
            if hash(name) in repeated and name in seen:
                raise UserError(
                    f"Two images are called {os.fsdecode(name)!r}, and each must have a name of "
                    f"its own (such names: {len(repeated)}); correct what the source calls "
                    "them, or let a generator leave out 'path'."
                )
            seen.update({name} if hash(name) in repeated else ())


def _usable(rows: pa.Table) -> list[bytes]:
    return rows["path"].filter(rows["reason"].is_null()).to_pylist()
