"""References to images: small enough to list millions, and grouped into units of work."""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator
from typing import Protocol

from image_pipeline.components.sources.column_types import Value
from image_pipeline.components.sources.rows import Compact, Location


@dataclasses.dataclass(frozen=True, slots=True)
class Annotations(Compact):
    """Label, group, split and further columns of one image, as a table gives them.

    Attributes:
      row: where the row is, such as `train.csv:17`.
      label: None where the table has no column of labels, "" where the cell is empty.
      group: the same.
      split: the same.
      further: values of the further columns, in the order of their names.
    """

    row: str
    label: str | None = None
    group: str | None = None
    split: str | None = None
    further: tuple[Value, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ImageRef(Compact):
    """One image to ingest.

    Attributes:
      path: relative to the source's root, with slashes; or absolute, or a URI.
      size_bytes: as listed; with `modified_ns` it tells whether a file changed between two runs.
      modified_ns: time of the last change, in nanoseconds since 1970 (0 where unknown).
      problem: why the file is not read (`NOT_A_FILE`, …); None for an ordinary file.
      message: why, in words, if the reason alone is not enough.
      annotations: those of a table's row; None where only the path gives any.
      mask: the file of its mask; None where there is none.
      location: where its bytes are; None if they are a file of their own, at `path`.
      stamp: of a local file as it was listed, its inode and the time of the inode's last change, in
        nanoseconds; None where they are unknown.
    """

    path: str
    size_bytes: int
    modified_ns: int
    problem: str | None = None
    message: str = ""
    annotations: Annotations | None = None
    mask: "ImageRef | None" = None
    location: Location | None = None
    stamp: tuple[int, int] | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive references: the unit of work of the prepare stage.

    Attributes:
      number: 0, 1, 2, …
      is_last: whether it is the last one, so that a lost chunk is noticed.
      refs: the references.
    """

    number: int
    is_last: bool
    refs: tuple[ImageRef, ...]


class Source(Protocol):
    """Where images come from: what it is called, what there is, and the bytes of each."""

    @property
    def root(self) -> str:
        """The folder or file, or its URI, that relative paths start from."""

    def list(self) -> Iterator[ImageRef]:
        """Lists the images in their order; raises UserError if that cannot be done."""

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """The first bytes of an image's file; at most so many, unless they come from a store.

        Raises:
          BadImage: if it is not to be read, or is damaged.
          OSError: if it cannot be read; FileNotFoundError if it is not there.
          UserError: if its store refuses it or does not answer.
        """


def make_chunks(
    refs: Iterable[ImageRef], max_refs: int = 4096, max_bytes: int = 256 * 2**20
) -> Iterator[Chunk]:
    """Groups references into chunks, each a fraction of a minute's work.

    Args:
      refs: the references, in order.
      max_refs: most references in a chunk.
      max_bytes: a chunk ends when its sources reach this many bytes.

    Yields:
      Chunks numbered from 0; the last one is marked, and is empty if there is no reference.
    """
    pending: list[ImageRef] = []
    number = size_bytes = 0
    for ref in refs:
        if pending and (len(pending) >= max_refs or size_bytes >= max_bytes):
            yield Chunk(number, False, tuple(pending))
            pending, size_bytes, number = [], 0, number + 1
        pending.append(ref)
        size_bytes += ref.size_bytes + (ref.mask.size_bytes if ref.mask else 0)
    yield Chunk(number, True, tuple(pending))


def list_fields(ref: ImageRef, with_annotations: bool = True) -> list[object]:
    """What `dataclasses.astuple` gives, as JSON has it, in a third of its time."""
    annotations, location = ref.annotations if with_annotations else None, ref.location
    of_location: object = location and Location.fields(location)
    if location and location.within:
        of_location = dataclasses.astuple(location)
    of_annotations: object = annotations and Annotations.fields(annotations)
    if annotations and annotations.further:
        of_annotations = dataclasses.astuple(annotations)
    file = [ref.path, ref.size_bytes, ref.modified_ns, ref.problem, ref.message]
    return [*file, of_annotations, ref.mask and list_fields(ref.mask), of_location, ref.stamp]


def fingerprint_refs(refs: Iterable[ImageRef], columns: object = None) -> str:
    """A hash of names, sizes, modification times and tables: equal if nothing was touched.

    Args:
      refs: the references.
      columns: names and types of a table's columns, whose values the references hold.

    Returns:
      32 hexadecimal digits.
    """
    digest = hashlib.sha256(repr(columns).encode() if columns else b"")
    for ref in refs:
        for file in (ref, ref.mask) if ref.mask else (ref,):
            line = f"{file.path}\0{file.size_bytes}\0{file.modified_ns}\0{file.problem}\n"
            digest.update(line.encode(errors="surrogateescape"))
        if ref.annotations is not None:
            digest.update(repr(ref.annotations).encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]
