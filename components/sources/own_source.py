"""A source of the user's own, which a function of theirs opens: `source:MODULE:FUNCTION`."""

import dataclasses
import functools
import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from image_pipeline.components.dotted import load_named
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.messages import describe_error
from image_pipeline.components.sources.references import ImageRef

_PREFIX = "source:"


def is_own_source(images: str) -> bool:
    """Tells whether what is given as images names a function that opens a source."""
    return images.startswith(_PREFIX)


@dataclasses.dataclass(frozen=True)
class OwnSource:
    """What the user's function opens; what it does wrong is told in a sentence.

    Attributes:
      root: `source:MODULE:FUNCTION`, and perhaps a colon and the text to call the function with.
    """

    root: str

    @functools.cached_property
    def _source(self) -> Any:
        module, function, *rest = [*self.root.removeprefix(_PREFIX).split(":", 2), ""][:3]
        if not module or not function.isidentifier():
            raise UserError(
                "--images must be source:MODULE:FUNCTION or source:MODULE:FUNCTION:TEXT, such as "
                f"source:my_photos:open_source:photos.db, got {self.root!r}."
            )
        source = self._call("", load_named("--images", f"{module}.{function}"), *filter(None, rest))
        if missing := [n for n in ("list", "read") if not callable(getattr(source, n, None))]:
            raise UserError(
                f"{self.root} must open an object with list() and read(ref, most_bytes), but that "
                f"of type {type(source).__name__} has no {missing[0]}."
            )
        return source

    def list(self) -> Iterator[ImageRef]:
        """The references that the user's `list` gives.

        Raises:
          UserError: if it fails, or gives anything else.
        """
        number = 0
        refs = iter(self._call("list() of ", self._source.list))
        while (ref := self._call("list() of ", next, refs, None)) is not None:
            if not isinstance(ref, ImageRef) or not ref.path:
                raise UserError(
                    f"list() of {self.root} must give an ImageRef with a path, but number {number} "
                    f"is {ref!r}."
                )
            number += 1
            yield ref

    def read(self, ref: ImageRef, most_bytes: int) -> bytes:
        """The bytes of the user's `read`, or its array as `.npy` bytes; see `Source.read`."""
        found = self._call("read() of ", self._source.read, ref, most_bytes)
        if isinstance(found, np.ndarray):
            file = io.BytesIO()
            np.lib.format.write_array(file, found, (1, 0), allow_pickle=False)
            found = file.getvalue()
        if not isinstance(found, bytes):
            raise UserError(
                f"read() of {self.root} must give bytes or an array, but gave "
                f"{type(found).__name__} for {ref.path!r}."
            )
        return found[:most_bytes]

    def _call(self, what: str, function: Any, *arguments: Any) -> Any:
        """Calls the user's code, which may raise anything; `what` of it is for the message."""
        try:
            return function(*arguments)
        except (BadImage, OSError, UserError):
            raise
        except Exception as error:
            raise UserError(f"{what}{self.root} fails: {describe_error(error)}") from error
