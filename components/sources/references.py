"""References to images: small enough to list millions, and grouped into units of work."""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator


@dataclasses.dataclass(frozen=True, slots=True)
class ImageRef:
    """One file to ingest.

    Attributes:
      path: relative to the images folder, with slashes.
      size_bytes: as listed; with `modified_ns` it tells whether a file changed between two runs.
      modified_ns: time of the last change, in nanoseconds since 1970 (0 where unknown).
      problem: why what is listed is not read (`NOT_A_FILE`, …); None for a file like any other.
    """

    path: str
    size_bytes: int
    modified_ns: int
    problem: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive references: the unit of work of the prepare stage.

    Attributes:
      number: 0, 1, 2, …
      is_last: so that a lost chunk is noticed, the last one says so.
      refs: the references.
    """

    number: int
    is_last: bool
    refs: tuple[ImageRef, ...]


def make_chunks(
    refs: Iterable[ImageRef], max_refs: int = 4096, max_bytes: int = 256 * 2**20
) -> Iterator[Chunk]:
    """Groups references into chunks, each a fraction of a minute's work.

    Args:
      refs: the references, in order.
      max_refs: most references in a chunk.
      max_bytes: a chunk that reaches this many bytes of sources is closed.

    Yields:
      Chunks numbered from 0; the last one is marked, and is empty if there is no reference.
    """
    held: list[ImageRef] = []
    number = size_bytes = 0
    for ref in refs:
        if held and (len(held) >= max_refs or size_bytes >= max_bytes):
            yield Chunk(number, False, tuple(held))
            held, size_bytes, number = [], 0, number + 1
        held.append(ref)
        size_bytes += ref.size_bytes
    yield Chunk(number, True, tuple(held))


def fingerprint_refs(refs: Iterable[ImageRef]) -> str:
    """A hash of names, sizes and times of change: equal if and only if no file was touched.

    Returns:
      32 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for ref in refs:
        line = f"{ref.path}\0{ref.size_bytes}\0{ref.modified_ns}\0{ref.problem}\n"
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]
