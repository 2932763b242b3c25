"""The elements of a DICOM file, by pydicom: plain numbers and bytes, or a `BadImage`.

Only elements that pixels need are read, and no message quotes any: they may tell of a patient.
"""

import functools
import io
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from image_pipeline.components.images.bad_image import (
    CORRUPT,
    DECODER_ERRORS,
    TRUNCATED,
    BadImage,
)


def call_pydicom(function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """Calls a function of pydicom's, reporting only the type of its errors.

    Raises:
      BadImage: it gave up.
    """
    from pydicom import errors

    try:
        return function(*args, **settings)
    except EOFError:
        raise BadImage(TRUNCATED, "the DICOM file ends before its last value") from None
    except (*DECODER_ERRORS, errors.BytesLengthException, errors.InvalidDicomError) as error:
        message = f"the DICOM file is damaged: pydicom gave up with {type(error).__name__}"
        raise BadImage(CORRUPT, message) from None


@dataclass(frozen=True)
class Elements:
    """Elements of a file, or of an item of a sequence in it, by their keywords."""

    dataset: Any

    def get(self, name: str) -> Any:
        """The value as pydicom has it; None if there is none."""
        return call_pydicom(self.dataset.get, name)

    def read_text(self, name: str) -> str:
        """The value as text; "" if there is none."""
        value = self.get(name)
        return value if isinstance(value, str) else ""

    def read_data(self, name: str) -> bytes:
        """The value as bytes; none if there is none."""
        value = self.get(name)
        return value if isinstance(value, bytes) else b""

    def read_numbers(self, name: str) -> list[float]:
        """All numbers of a value."""
        value = self.get(name)
        if value is None or isinstance(value, (str, bytes)):
            return []
        values = list(value) if isinstance(value, Sequence) else [value]
        return [float(each) for each in values if isinstance(each, (int, float))]

    def read_number(self, name: str) -> float | None:
        """The first number of a value; None if there is none."""
        return next(iter(self.read_numbers(name)), None)

    def read_count(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """A whole number.

        Raises:
          BadImage: there is none, and no default, or it is not within the limits.
        """
        number = self.read_number(name)
        if number is None and default is not None:
            return default
        if number is None or not least <= number <= most or number != int(number):
            message = f"the DICOM file's {name} is not a whole number from {least} to {most}"
            raise BadImage(CORRUPT, message)
        return int(number)

    def list_items(self, name: str) -> list["Elements"]:
        """The items of a sequence."""
        value = self.get(name)
        return [] if value is None or isinstance(value, (str, bytes)) else [*map(Elements, value)]


def read_elements(data: bytes, names: Sequence[str]) -> Elements:
    """Reads some elements of a file."""
    pydicom = _import()
    return Elements(call_pydicom(pydicom.dcmread, io.BytesIO(data), specific_tags=list(names)))


@functools.cache
def _import() -> Any:
    """Imports pydicom, and keeps it from writing what it finds strange to the log."""
    import pydicom
    import pydicom.config

    warnings.filterwarnings("ignore", module=r"pydicom\.")
    logging.getLogger("pydicom").setLevel(logging.CRITICAL + 1)
    pydicom.config.settings.reading_validation_mode = pydicom.config.IGNORE
    return pydicom
