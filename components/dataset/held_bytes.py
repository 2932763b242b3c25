"""Which files hold the bytes of some contents, as they are or in base64.

Of each content a few windows of bytes are sought; a file that has all of them holds it. A file is
read once, however many contents are sought, and none is decompressed.
"""

import base64
import collections
import os
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np

from image_pipeline.components import files

_WINDOW_BYTES = 64
_WINDOWS = 4  # of a content: one alone may be a table that many JPEGs have
_TRIED = 64  # places in a content, of which the windows are taken
_LEAST_VALUES = 8  # different bytes in a window: plainer ones are everywhere
_LEAST_BYTES = 16  # of a window, so that an aligned word of its base64 is in it
_WORD = np.dtype("<u8")
_PACKED = (
    *(b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh", b"7z\xbc\xaf"),
    b"\x04\x22\x4d\x18",  # LZ4; before it gzip, ZIP, Zstandard, xz, bzip2, 7z
)

Name = TypeVar("Name", bound=Hashable)


def take_windows(content: bytes) -> list[bytes]:
    """The windows by which a content is found; none if it is too short or plain to be known."""
    size = min(_WINDOW_BYTES, len(content))
    starts = sorted({(len(content) - size) * place // _TRIED for place in range(_TRIED + 1)})
    windows = [content[start : start + size] for start in starts if size >= _LEAST_BYTES]
    varied = [window for window in windows if len(set(window)) >= _LEAST_VALUES]
    step = -(-len(varied) // _WINDOWS) or 1
    return varied[step // 2 :: step]  # Not the beginning, where tools change what they say.


def is_packed(path: str) -> bool:
    """Whether a file is compressed, by how it begins, so that what it holds cannot be seen."""
    with open(path, "rb") as file:
        return file.read(8).startswith(_PACKED)


class BytesFinder(Generic[Name]):
    """Finds contents in files.

    A window, wherever it begins, has at one of its first 8 bytes a word of 8 bytes that is aligned
    in what is read. So only aligned words are looked up, and of these the lower two bytes first.
    """

    def __init__(self, contents: Iterable[tuple[Name, Sequence[bytes]]]):
        """Takes names of contents, each with its windows; several may have one name."""
        self._contents = [(name, windows) for name, windows in contents if windows]
        self._forms: dict[bytes, list[tuple[int, int]]] = collections.defaultdict(list)
        for number, (_, windows) in enumerate(self._contents):
            for place, window in enumerate(windows):
                for form in _list_forms(window):
                    self._forms[form].append((number, place))
        self._longest = max(map(len, self._forms), default=1)
        self._by_word: dict[int, set[bytes]] = collections.defaultdict(set)
        for form in self._forms:
            for word in np.array([form[at : at + 8] for at in range(8)]).view(_WORD).tolist():
                self._by_word[word].add(form)
        self._words = np.array(sorted(self._by_word), _WORD)
        self._is_low = np.zeros(1 << 16, bool)
        self._is_low[self._words.view("<u2")[::4]] = True

    def find(self, path: str) -> set[Name]:
        """The names of the contents that a file holds; raises OSError if it cannot be read."""
        found: dict[int, set[int]] = collections.defaultdict(set)
        data = b""
        for block in files.read_blocks(path):
            data = data[-self._longest :] + block
            words = np.frombuffer(data, _WORD, len(data) // _WORD.itemsize)
            words = words[self._is_low[words.view("<u2")[::4]]]
            for word in np.unique(words[np.isin(words, self._words)]).tolist():
                for form in self._by_word[word]:
                    if form in data:
                        for number, place in self._forms[form]:
                            found[number].add(place)
        return {
            self._contents[number][0]
            for number, places in found.items()
            if len(places) == len(self._contents[number][1])
        }


def _list_forms(window: bytes) -> set[bytes]:
    """A window as it is, and in base64 of both alphabets, from each of three bytes on."""
    forms = {window}
    for start in range(3):
        whole = min(48, (len(window) - start) // 3 * 3)  # 48 bytes become 64 letters.
        encoded = base64.b64encode(window[start : start + whole])
        forms |= {encoded, encoded.translate(bytes.maketrans(b"+/", b"-_"))}
    return forms


def list_files(folders: Iterable[str]) -> list[str]:
    """All files in some folders, each once, by their real paths; links are not followed."""
    found = {
        os.path.join(folder, name)
        for top in folders
        for folder, _, names in os.walk(os.path.realpath(top))
        for name in names
    }
    return sorted(path for path in found if os.path.isfile(path) and not os.path.islink(path))
