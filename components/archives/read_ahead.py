"""Reads images in the order in which they lie in a gzip file, whatever their names' order is.

Such a file is unpacked from one of few places on, so that each step back costs up to 4 MiB of
unpacking: 50 times what the image itself does.
"""

import dataclasses
from collections.abc import Iterator, Sequence

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources.held import Place
from image_pipeline.components.sources.references import ImageRef, Source


def read_ahead(refs: Sequence[ImageRef], source: Source, max_bytes: int) -> Source:
    """The source, from which these references were read ahead if their order takes long.

    Args:
      refs: a chunk's references, which bound the memory that this takes.
      source: whose they are.
      max_bytes: larger images are left alone.
    """
    each = [*refs, *(ref.mask for ref in refs if ref.mask is not None)]
    packed = [ref for ref in each if ref.place is not None and ref.place.kind == "gzip"]
    if not _goes_back(packed):
        return source
    held: dict[Place, bytes | BadImage | OSError] = {}
    for ref in sorted(packed, key=_place_of):
        if ref.problem is None and ref.size_bytes <= max_bytes and ref.place is not None:
            held[ref.place] = _try_read(ref, source, max_bytes)
    return _Ahead(source, held)


@dataclasses.dataclass(frozen=True)
class _Ahead:
    """A source of which some images were read."""

    source: Source
    held: dict[Place, bytes | BadImage | OSError]

    @property
    def root(self) -> str:
        """See `Source`; so do the others."""
        return self.source.root

    def list(self) -> Iterator[ImageRef]:
        """All of them."""
        return self.source.list()

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """What was read, or what went wrong."""
        found = self.held.get(ref.place) if ref.place is not None else None
        if found is None:
            return self.source.read(ref, most_bytes)
        if isinstance(found, bytes):
            return found[:most_bytes]
        raise found


def _try_read(ref: ImageRef, source: Source, max_bytes: int) -> bytes | BadImage | OSError:
    try:
        return source.read(ref, max_bytes)
    except (BadImage, OSError) as error:
        return error


def _place_of(ref: ImageRef) -> tuple[str, int]:
    return (ref.place.file, ref.place.start) if ref.place is not None else ("", 0)


def _goes_back(refs: Sequence[ImageRef]) -> bool:
    """Tells whether any file would be read backwards."""
    reached: dict[str, int] = {}
    for file, start in map(_place_of, refs):
        if start < reached.get(file, 0):
            return True
        reached[file] = start
    return False
