"""Which files hold the bytes of some contents, as they are or in base64.

Of each content a few windows of bytes are sought; a file that has all of them holds it, whatever a
tool changed around them. A file is read once, however many contents are sought, and none is
decompressed. All windows of a plain picture may be those of others, too: where contents are stored
as they are, as in shards, their hash decides.
"""

import base64
import collections
import dataclasses
import hashlib
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


@dataclasses.dataclass(frozen=True)
class Sought:
    """What a content is found by, which does not hold it.

    Attributes:
      windows: where in it each begins, and its bytes in hexadecimal; none if it is too short or
        plain to be known.
      size_bytes: of all of it.
      sha256: of all of it, in hexadecimal.
    """

    windows: tuple[tuple[int, str], ...]
    size_bytes: int
    sha256: str


def describe_content(content: bytes) -> Sought:
    """What a content is found by: a few windows spread over it, of those that are varied."""
    size = min(_WINDOW_BYTES, len(content))
    starts = sorted({(len(content) - size) * place // _TRIED for place in range(_TRIED + 1)})
    windows = [(start, content[start : start + size]) for start in starts if size >= _LEAST_BYTES]
    varied = [each for each in windows if len(set(each[1])) >= _LEAST_VALUES]
    step = -(-len(varied) // _WINDOWS) or 1
    # Not the beginning, where tools change what they say.
    return _describe(content, varied[step // 2 :: step])


def describe_text(text: str) -> Sought:
    """What a text is found by, which is its own window."""
    return _describe(content := text.encode(), [(0, content)])


def _describe(content: bytes, windows: Sequence[tuple[int, bytes]]) -> Sought:
    in_hex = tuple((start, window.hex()) for start, window in windows)
    return Sought(in_hex, len(content), hashlib.sha256(content).hexdigest())


def is_packed(path: str) -> bool:
    """Whether a file is compressed, by how it begins, so that what it holds cannot be seen."""
    with open(path, "rb") as file:
        return file.read(8).startswith(_PACKED)


class BytesFinder(Generic[Name]):
    """Finds contents in files.

    A window, wherever it begins, has at one of its first 8 bytes a word of 8 bytes that is aligned
    in what is read. So only aligned words are looked up, and of these the lower two bytes first.
    """

    def __init__(self, contents: Iterable[tuple[Name, Sought]]):
        """Takes names of contents, and what each is found by; several may have one name."""
        self._contents = [(name, sought) for name, sought in contents if sought.windows]
        # Of each form of a window: the content, which of its windows, and where that begins in it,
        # if the form is the window itself.
        self._forms: dict[bytes, list[tuple[int, int, int | None]]]
        self._forms = collections.defaultdict(list)
        for number, (_, sought) in enumerate(self._contents):
            for place, (start, in_hex) in enumerate(sought.windows):
                window = bytes.fromhex(in_hex)
                for form in _list_forms(window):
                    of_raw = start if form == window else None
                    self._forms[form].append((number, place, of_raw))
        self._longest = max(map(len, self._forms), default=1)
        self._by_word: dict[int, set[bytes]] = collections.defaultdict(set)
        for form in self._forms:
            for word in np.array([form[at : at + 8] for at in range(8)]).view(_WORD).tolist():
                self._by_word[word].add(form)
        self._words = np.array(sorted(self._by_word), _WORD)
        self._is_low = np.zeros(1 << 16, bool)
        self._is_low[self._words.view("<u2")[::4]] = True

    def find(self, path: str, as_stored: bool = False) -> set[Name]:
        """The names of the contents that a file holds.

        Args:
          path: of the file.
          as_stored: whether it holds contents only as they are, byte for byte.

        Raises:
          OSError: if it cannot be read.
        """
        found: dict[int, set[int]] = collections.defaultdict(set)
        begins: dict[int, set[int]] = collections.defaultdict(set)
        data, position = b"", 0  # of what follows it in the file
        for block in files.read_blocks(path):
            data = data[-self._longest :] + block
            position += len(block)
            words = np.frombuffer(data, _WORD, len(data) // _WORD.itemsize)
            words = words[self._is_low[words.view("<u2")[::4]]]
            known = np.unique(words[np.isin(words, self._words)]).tolist()
            for form in set().union(*(self._by_word[word] for word in known)):
                at = data.find(form)
                while at >= 0:
                    for number, place, start in self._forms[form]:
                        found[number].add(place)
                        if as_stored and start is not None:
                            begins[number].add(position - len(data) + at - start)
                    at = data.find(form, at + 1) if as_stored else -1
        return {
            self._contents[number][0]
            for number, places in found.items()
            if len(places) == len(self._contents[number][1].windows)
            and (not as_stored or self._is_stored(path, number, begins[number]))
        }

    def _is_stored(self, path: str, number: int, begins: Iterable[int]) -> bool:
        """Whether a content begins, as it is, at one of some places in a file."""
        sought = self._contents[number][1]
        read = (files.read_file(path, at, at + sought.size_bytes) for at in begins if at >= 0)
        return any(hashlib.sha256(content).hexdigest() == sought.sha256 for content in read)


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
