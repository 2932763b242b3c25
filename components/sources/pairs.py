"""Images with masks as a source: a folder or archive of both, and which belong together."""

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator

from image_pipeline.components.sources.reading import names_other_kind
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.spool import Spool

MASK_WITHOUT_IMAGE = "mask_without_image"
TWO_MASKS = "two_masks"

Key = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Images and masks.

    Attributes:
      files: the folder or archive of both.
      images: what images' paths in it look like, such as `images/{key}.*`; see `match_template`.
      masks: what masks' do. A file that could be both is a mask.
    """

    files: Source
    images: str
    masks: str

    @property
    def root(self) -> str:
        """See `Source.root`."""
        return self.files.root

    def list(self) -> Iterator[ImageRef]:
        """Lists the images in their order, and masks without an image where those stand.

        Raises:
          UserError: if the folder cannot be listed.
        """
        return self.pair(self.files.list())

    def pair(self, refs: Iterable[ImageRef]) -> Iterator[ImageRef]:
        """The same of files that are listed already.

        Of each mask, its path is held: some 300 bytes. Files that are neither come without a mask.
        """
        masks: dict[Key, list[ImageRef]] = {}
        named: set[Key] = set()
        listed = Spool(self._find_keys(refs))
        for ref, mask_key, image_key in listed:
            if mask_key is not None:
                masks.setdefault(mask_key, []).append(ref)
            elif image_key is not None:
                named.add(image_key)
        for ref, mask_key, image_key in listed:
            if mask_key is None:
                yield _pair(ref, masks.get(image_key, []) if image_key is not None else [])
            elif mask_key not in named:
                message = f"there is no image for it that is called {self.images}"
                yield dataclasses.replace(ref, problem=MASK_WITHOUT_IMAGE, message=message)

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """See `Source.read`."""
        return self.files.read(ref, most_bytes)

    def _find_keys(
        self, refs: Iterable[ImageRef]
    ) -> Iterator[tuple[ImageRef, Key | None, Key | None]]:
        """Each file, with its key as a mask and its key as an image; None for what it is not."""
        for ref in refs:
            if names_other_kind(ref.path):
                yield ref, None, None
                continue
            mask_key = match_template(self.masks, ref.path)
            image_key = None if mask_key is not None else match_template(self.images, ref.path)
            yield ref, mask_key, image_key


def _pair(ref: ImageRef, masks: list[ImageRef]) -> ImageRef:
    if len(masks) > 1:
        named = " and ".join(repr(mask.path) for mask in masks[:2])
        message = f"two files are its mask, {named}; keep one, or make ingest.masks.masks narrower"
        return dataclasses.replace(ref, problem=TWO_MASKS, message=message)
    return dataclasses.replace(ref, mask=masks[0]) if masks else ref


def match_template(template: str, path: str) -> Key | None:
    """What the names in braces stand for in a path, in the order of the names.

    Args:
      template: a path in which `{name}` stands for anything (the same, if it occurs again), and `*`
        for anything but a slash.
      path: relative to the folder, with slashes.

    Returns:
      The values; None if the path is no such one.
    """
    found = _compile(template).fullmatch(path)
    if found is None:
        return None
    return tuple(text for _, text in sorted(found.groupdict().items()))


def names_in(template: str) -> set[str]:
    """The names in braces."""
    return set(re.findall(r"\{(\w+)\}", template))


@functools.cache
def _compile(template: str) -> re.Pattern[str]:
    pattern, seen = "", set()
    for part in re.split(r"(\{\w+\}|\*)", template):
        name = part[1:-1]
        if part == "*":
            pattern += "[^/]*"
        elif part[:1] == "{" and part.endswith("}"):
            pattern += f"(?P={name})" if name in seen else f"(?P<{name}>.+)"
            seen.add(name)
        else:
            pattern += re.escape(part)
    return re.compile(pattern, re.DOTALL)
