"""A contact sheet as a file: a PNG, or one HTML page with everything in it."""

import html
import io
import warnings
from collections.abc import Sequence

from markupsafe import Markup
from PIL import Image

from image_pipeline.components.names import printable_text
from image_pipeline.preview.panels import Panel, make_panels
from image_pipeline.preview.plots import SHEET_DPI, plot_views
from image_pipeline.preview.samples import RecordViews
from image_pipeline.show.html import fill_template, make_data_uri, write_output


def save_sheet(
    path: str, records: Sequence[RecordViews], lines: Sequence[str], options: str
) -> None:
    """Writes a contact sheet.

    Args:
      path: a file ending in .png or .html.
      records: as `read_views` makes them.
      lines: the title, then what was done.
      options: all options as text, for the page.

    Raises:
      UserError: if the file cannot be written.
    """
    if path.endswith(".html"):
        content = make_page(records, lines, options).encode()
    else:
        content = _draw(records, lines)
    write_output(path, content)


def make_page(records: Sequence[RecordViews], lines: Sequence[str], options: str) -> str:
    """The sheet as one HTML page that needs no other file; arguments as `save_sheet`'s."""
    title, *steps = map(_escape, lines)
    rows = [
        {"label": _escape(each.label), "panels": list(map(_escape_panel, make_panels(each)))}
        for each in records
    ]
    page = fill_template(
        "image_pipeline.preview",
        "sheet.html.jinja",
        title=title,
        steps=steps,
        rows=rows,
        options=_escape(options),
        draw=lambda pixels: make_data_uri(Image.fromarray(pixels), "png"),
    )
    return f"{page}\n"


def _draw(records: Sequence[RecordViews], lines: Sequence[str]) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        # Warns of letters that the font lacks, which are drawn as boxes; a page has them all.
        warnings.simplefilter("ignore", UserWarning)
        plot_views(records, lines).savefig(file, format="png", dpi=SHEET_DPI)
    return file.getvalue()


def _escape(text: str) -> Markup:
    """Escapes as the standard library does, whose entities for quotes differ from Jinja's."""
    return Markup(html.escape(printable_text(text)))


def _escape_panel(panel: Panel) -> Panel:
    return Panel(_escape(panel.title), panel.pixels, tuple(map(_escape, panel.captions)))
