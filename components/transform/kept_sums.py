"""The sums of each image's pixels, kept beside a graph: a later analysis decodes only new images.

They are found by a hash of what a record stores of its image, so they are those of any record that
stores the same, in whichever data set and under whichever name. All that else they depend on, the
view and the code, names the file; it is used if that is the same. A total is recomputed from the
rows of integers of the records that are there: it is the one that all pixels would give.
"""

import functools
import hashlib
import os
from collections.abc import Iterable
from typing import NamedTuple

import cv2
import numpy as np
import scipy
import simplejpeg
import tensorflow as tf

from image_pipeline.components import files
from image_pipeline.components.contract import PIXEL_SUMS
from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.function_version import code_version
from image_pipeline.components.views.options import ViewOptions

KEY = 2
"""How many int64 of a row are the image's hash; its sums follow, see `PixelSums`."""
_DIGEST = 32


class KeptSums(NamedTuple):
    """Rows of int64 [n, KEY + 1 + 2 * channels], sorted, each image once."""

    rows: np.ndarray
    problem: str = ""
    """Why those that there are cannot be used, as the end of a sentence about the folder."""

    def find(self, key: np.ndarray) -> np.ndarray | None:
        """The row of an image, if there is one."""
        first = self.rows[:, 0]
        among = self.rows[first.searchsorted(key[0]) : first.searchsorted(key[0], "right")]
        found = among[(among[:, :KEY] == key).all(axis=1)]
        return found[0] if len(found) else None

    def count_shared(self, other: "KeptSums") -> int:
        """How many images have a row in both."""
        keys = np.concatenate([self.rows[:, :KEY], other.rows[:, :KEY]])
        return len(keys) - len(np.unique(keys, axis=0))


def hash_image(image: StoredImage) -> np.ndarray:
    """Names an image by all that its view is made of: int64 [KEY], of SHA-256."""
    digest = hashlib.sha256(repr(image[1:]).encode())
    digest.update(image.encoded)
    return np.frombuffer(digest.digest(), "<i8", KEY)


def write_sums(folder: str, view: ViewOptions, rows: Iterable[np.ndarray]) -> None:
    """Replaces the sums in a graph's folder: it has those of the images analysed last, if any.

    Args:
      folder: the graph's.
      view: the sums are those of its pixels.
      rows: some at a time, each int64 [n, KEY + 1 + 2 * channels].
    """
    own = [each for each in rows if len(each)]
    if not own:
        files.delete(files.join(folder, PIXEL_SUMS))
        return
    content = _made_by(view) + np.unique(np.concatenate(own), axis=0).astype("<i8").tobytes()
    files.write_file(files.join(folder, PIXEL_SUMS), hashlib.sha256(content).digest() + content)


def read_sums(folder: str, view: ViewOptions) -> KeptSums:
    """The sums in a graph's folder, none if they are not to be relied on.

    Args:
      folder: the graph's, "" for none.
      view: that of the images to be analysed.
    """
    path = files.join(folder, PIXEL_SUMS)
    try:
        return _read(path, view, *files.stat_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return KeptSums(_no_rows(view))
    except OSError as error:
        return KeptSums(_no_rows(view), f"has sums that cannot be read ({error.strerror})")


def find_latest(folder: str) -> str | None:
    """The graph whose sums were written last, of those in a folder; None if there is none."""
    return next(map(os.path.dirname, files.list_latest(folder, PIXEL_SUMS)), None)


@functools.lru_cache(maxsize=1)
def _read(path: str, view: ViewOptions, *state: int) -> KeptSums:
    """Reads a file of sums once for all shards; `state` is its size and time of change."""
    content = files.read_file(path)
    rows = content[2 * _DIGEST :]
    if content[:_DIGEST] != hashlib.sha256(content[_DIGEST:]).digest():
        return KeptSums(_no_rows(view), "has damaged sums, by their checksum")
    if content[_DIGEST : 2 * _DIGEST] != _made_by(view):
        return KeptSums(_no_rows(view), "has the sums of another view or version")
    return KeptSums(np.frombuffer(rows, "<i8").reshape(-1, _no_rows(view).shape[1]))


def _no_rows(view: ViewOptions) -> np.ndarray:
    return np.empty((0, KEY + 1 + 2 * view.channels), np.int64)


def _made_by(view: ViewOptions) -> bytes:
    """Hashes what the sums of a stored image depend on: the view, the code, and whose it calls."""
    libraries = [each.__version__ for each in (cv2, np, scipy, simplejpeg, tf)]
    code = code_version("arrays", "images", "transform")
    return hashlib.sha256(repr((view.model_dump_json(), code, libraries)).encode()).digest()
