"""Archives as a source: the members of tar and zip files, as if they lay in a folder."""

import dataclasses
import glob
import os
from collections.abc import Iterator

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.archive_members import ENDINGS, list_members
from image_pipeline.components.sources.folder import listing_key
from image_pipeline.components.sources.places import read_place
from image_pipeline.components.sources.references import ImageRef

LISTED_TWICE = "listed_twice"


def is_archive(images: str) -> bool:
    """Tells whether what is given as images is an archive, or a pattern of archives."""
    is_folder = files.is_local(images) and os.path.isdir(images)
    return not is_folder and images.lower().endswith(ENDINGS)


@dataclasses.dataclass(frozen=True)
class Archive:
    """Archives whose members are images.

    Attributes:
      root: the path or URI of one, or a shell pattern of several, whose members are listed as if
        they were unpacked into one folder.
    """

    root: str

    def list(self) -> Iterator[ImageRef]:
        """Lists the members in the order of a folder of them.

        Raises:
          UserError: if there is no archive, or one cannot be read.
        """
        refs = [ref for path in _find(self.root) for ref in list_members(path)]
        refs.sort(key=lambda ref: listing_key(ref.path, self.root))
        last = None
        for ref in refs:
            yield ref if last is None or ref.path != last.path else _name_twice(ref, last)
            last = ref

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """Reads a member; see `Source.read`."""
        return read_place(ref, most_bytes)


def _find(pattern: str) -> list[str]:
    if files.is_local(pattern):
        found = [pattern] if os.path.isfile(pattern) else sorted(glob.glob(pattern))
    else:
        folder, _, name = pattern.rpartition("/")
        found = files.list_files(folder, name)
    if not found:
        raise UserError(f"There is no archive {pattern!r}; check --images.")
    return found


def _name_twice(ref: ImageRef, last: ImageRef) -> ImageRef:
    """The first member of a name counts; a tar file to which a newer one was added has both."""
    first, again = (each.place.file if each.place else "" for each in (last, ref))
    message = f"{again!r} has it twice" if first == again else f"{first!r} and {again!r} have it"
    return dataclasses.replace(ref, problem=LISTED_TWICE, message=message)
