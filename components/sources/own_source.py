"""A source of the user's own, which a function of theirs opens: `source:MODULE:FUNCTION`."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from image_pipeline.components.dotted import load_named
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import UNSUPPORTED, BadImage
from image_pipeline.components.images.npy import make_file
from image_pipeline.components.messages import describe_error
from image_pipeline.components.sources.references import Annotations, ImageRef
from image_pipeline.components.sources.source_kinds import SourceKind

_PREFIX = "source:"
_END = object()
_OF_READ = (UserError, BadImage, OSError)  # The last two quarantine the image.
# Types of what is listed.
_OF_REF = {"path": str, "size_bytes": int, "modified_ns": int, "annotations": Annotations | None}
_ANNOTATION_TYPES = {"row": str} | dict.fromkeys(("label", "group", "split"), str | None)


@dataclasses.dataclass(frozen=True)
class OwnObject:
    """What the user's function opens; its mistakes are errors of one sentence.

    Attributes:
      root: `source:MODULE:FUNCTION`, and perhaps a colon and the text to call the function with.
      lister: the method that lists images: "list" or "rows".
    """

    root: str
    lister: str

    @functools.cached_property
    def _opened(self) -> Any:
        prefix, module, function, *rest = [*self.root.split(":", 3), "", ""][:4]
        if not module or not function.isidentifier():
            raise UserError(
                f"A source of your own is given as {prefix}:MODULE:FUNCTION or "
                f"{prefix}:MODULE:FUNCTION:TEXT, such as {prefix}:my_photos:open_source:photos.db, "
                f"got {self.root!r}."
            )
        opening = load_named(prefix, f"{module}.{function}")
        opened = _call(self.root, opening, *filter(None, rest))
        if missing := [n for n in (self.lister, "read") if not callable(getattr(opened, n, None))]:
            raise UserError(
                f"{self.root} must open an object with {self.lister}() and read(…, most_bytes), "
                f"but that of type {type(opened).__name__} has no {missing[0]}."
            )
        return opened

    def iterate(self) -> Iterator[Any]:
        """What the user's lister gives; raises UserError if it fails."""
        called = f"{self.lister}() of {self.root}"
        found = _call(called, getattr(self._opened, self.lister))
        if not isinstance(found, Iterable):
            kind = type(found).__name__
            raise UserError(f"{called} must yield, but gave {kind}; yield each image.")
        items = iter(found)
        while (item := _call(called, next, items, _END)) is not _END:
            yield item

    def read(self, image: Any, most_bytes: int) -> bytes:
        """The bytes of the user's `read`, or its array as `.npy` bytes; see `Source.read`."""
        called, read = f"read() of {self.root}", self._opened.read
        found = _call(called, read, image, most_bytes, passes=_OF_READ)
        if isinstance(found, np.ndarray):
            if found.dtype.hasobject:
                raise BadImage(UNSUPPORTED, "read() gave an array of Python objects; give uint8")
            found = make_file(found)
        if isinstance(found, bytearray | memoryview):
            found = bytes(found)
        if not isinstance(found, bytes):
            name = getattr(image, "path", image)
            raise UserError(
                f"{called} must give bytes or an array, but gave {type(found).__name__} for "
                f"{name!r}."
            )
        return found[:most_bytes]


def _call(
    called: str, function: Any, *arguments: Any, passes: tuple[type[Exception], ...] = (UserError,)
) -> Any:
    """Calls the user's code, which may raise anything; what does not pass becomes a sentence."""
    try:
        return function(*arguments)
    except passes:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"{called} fails: {describe_error(error)}") from error


@dataclasses.dataclass(frozen=True)
class OwnSource:
    """References that the user's object lists and reads.

    Attributes:
      root: see `OwnObject`.
    """

    root: str

    @functools.cached_property
    def _own(self) -> OwnObject:
        return OwnObject(self.root, "list")

    def list(self) -> Iterator[ImageRef]:
        """The references that the user's `list` gives.

        Raises:
          UserError: if it fails, or gives anything else.
        """
        for number, ref in enumerate(self._own.iterate()):
            if problem := explain_wrong(ref):
                raise UserError(f"list() of {self.root} must give {problem} (number {number}).")
            yield ref

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """What the user's `read` gives for a reference; see `Source.read`."""
        return self._own.read(ref, most_bytes)


def explain_wrong(ref: object) -> str:
    """What is listed must be, and is not; empty if it is."""
    if not isinstance(ref, ImageRef) or not ref.path:
        return f"an ImageRef with a path, but gave {ref!r}"
    fields: list[tuple[Any, str, Any]] = [(ref, name, kind) for name, kind in _OF_REF.items()]
    if isinstance(ref.annotations, Annotations):
        fields += [(ref.annotations, name, kind) for name, kind in _ANNOTATION_TYPES.items()]
    for each, name, kind in fields:
        if not isinstance(value := getattr(each, name), kind):
            return f"{name} as {getattr(kind, '__name__', kind)}, but gave {value!r}"
    return ""


OWN_SOURCE = SourceKind(
    name="a source of your own",
    prefix=_PREFIX,
    open=lambda images, _: OwnSource(images),
    has_parts=False,
)
