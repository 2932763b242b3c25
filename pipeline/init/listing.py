"""The files of a source, listed so that a look at a million of them takes seconds."""

import random
from collections.abc import Iterable, Sequence

from image_pipeline.components import files
from image_pipeline.components.sources.folder import Folder
from image_pipeline.components.sources.references import ImageRef, Source

# With more local files, only some of them are asked for their sizes.
_MANY = 50_000
_SOME = 20_000


def list_files(source: Source) -> dict[str, ImageRef]:
    """All files that can be read, by their paths; of very many, without their sizes."""
    if not (isinstance(source, Folder) and files.is_local(source.root)):
        return _by_path(source.list())
    refs = _by_path(source.list_unmeasured())
    if len(refs) > _MANY:
        return refs
    return _by_path(map(source.measure, refs.values()))


def measure_some(source: Source, refs: Sequence[ImageRef]) -> Sequence[ImageRef]:
    """References with sizes: all of them, or a random sample if they have none yet."""
    if len(refs) <= _MANY or not isinstance(source, Folder) or any(ref.size_bytes for ref in refs):
        return refs
    return [source.measure(ref) for ref in random.Random(0).sample(refs, _SOME)]


def _by_path(refs: Iterable[ImageRef]) -> dict[str, ImageRef]:
    return {ref.path: ref for ref in refs if ref.problem is None}
