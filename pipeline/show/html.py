"""A self-contained HTML page: a filled template, with pictures as data URIs."""

import base64
import io
from typing import Any, NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup
from PIL import Image

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.names import printable_text
from image_pipeline.show import words
from image_pipeline.show.evaluation import say_compared, say_mistake

# The filters by which templates format values.
_FILTERS = {
    "value": words.format_value,
    "bytes": words.format_bytes,
    "count": words.format_count,
    "share": words.format_share,
    "figure": words.format_figure,
    "fact": words.format_fact,
    "change": words.format_change,
    "measured": words.format_measured,
    "estimate": words.format_estimate,
    "compared": say_compared,
    "mistake": say_mistake,
    "range": words.format_range,
    "breakable": words.make_breakable,
    "seconds": words.format_seconds,
    "note": words.explain_note,
    "reason": words.explain_reason,
    "plain": words.explain_key,
}


def fill_template(package: str, name: str, **values: Any) -> str:
    """Fills a template of a package; names in it are made safe, as in a terminal.

    Args:
      package: the folder of the template, as it is imported.
      name: the template's file name.
      **values: what it shows. All text is escaped except the project's own `Markup`.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_show_safely,
    )
    environment.filters |= _FILTERS
    return environment.get_template(name).render(values)


def write_output(path: str, content: bytes) -> None:
    """Writes the file that `--output` names.

    Raises:
      UserError: if the file cannot be written.
    """
    try:
        files.write_file(path, content)
    except OSError as error:
        raise UserError(
            f"Cannot write {path!r}: {error.strerror}; choose another --output."
        ) from error


class Content(NamedTuple):
    """What a browser gets: the type, such as image/png, and the bytes."""

    kind: str
    data: bytes

    def as_uri(self) -> str:
        """It, within a page."""
        return f"data:{self.kind};base64,{base64.b64encode(self.data).decode()}"


def encode_picture(pixels: np.ndarray, kind: str, **options: Any) -> Content:
    """A picture of uint8 [height, width, 1 or 3].

    Args:
      pixels: what is shown.
      kind: "png", "jpeg" or "webp".
      **options: options of Pillow's encoder.
    """
    file = io.BytesIO()
    shown = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    Image.fromarray(np.ascontiguousarray(shown)).save(file, kind.upper(), **options)
    return Content(f"image/{kind}", file.getvalue())


def _show_safely(value: Any) -> Any:
    is_plain = isinstance(value, str) and not isinstance(value, Markup)
    return printable_text(value) if is_plain else value
