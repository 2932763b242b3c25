"""A contact sheet as a file: a PNG, or one HTML page with everything in it."""

import base64
import html
import io
import warnings
from collections.abc import Sequence

from PIL import Image

from image_pipeline.components.errors import UserError
from image_pipeline.components.names import printable_text
from image_pipeline.preview.panels import Panel, make_panels
from image_pipeline.preview.plots import SHEET_DPI, plot_views
from image_pipeline.preview.samples import RecordViews

_STYLE = """
:root { color-scheme: light dark; font: 14px system-ui, sans-serif; }
body { margin: 1.5rem; }
h1 { font-size: 1.2rem; }
.sheet { overflow-x: auto; }
th { text-align: left; font-weight: 600; padding: 0 .5rem .25rem 0; white-space: nowrap; }
td { vertical-align: top; padding: 0 .5rem .5rem 0; text-align: center; font-size: .8rem; }
td img { display: block; margin: auto; }
tbody th { vertical-align: middle; max-width: 14rem; overflow-wrap: anywhere; white-space: normal; }
small { display: block; opacity: .7; }
pre { white-space: pre-wrap; padding: .75rem; border: 1px solid #8888; border-radius: 4px; }
"""
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{style}</style>
<h1>{title}</h1>
<ol>{steps}</ol>
<div class="sheet">
<table>
<thead><tr><th></th>{columns}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
<details><summary>Options</summary><pre>{options}</pre></details>
</html>
"""


def save_sheet(
    path: str, records: Sequence[RecordViews], lines: Sequence[str], options: str
) -> None:
    """Writes a contact sheet.

    Args:
      path: of a file ending in .png or .html.
      records: as `read_views` makes them.
      lines: the title, then what was done.
      options: all options in text, for the page.

    Raises:
      UserError: if the file cannot be written.
    """
    try:
        if path.endswith(".html"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(make_page(records, lines, options))
        else:
            with warnings.catch_warnings():
                # Of letters that the font lacks, which are drawn as boxes; a page has them all.
                warnings.simplefilter("ignore", UserWarning)
                plot_views(records, lines).savefig(path, dpi=SHEET_DPI)
    except OSError as error:
        raise UserError(f"Cannot write {path!r}: {error.strerror}; set --output.") from error


def make_page(records: Sequence[RecordViews], lines: Sequence[str], options: str) -> str:
    """The sheet as one HTML page that needs no other file; arguments as `save_sheet`'s."""
    rows = [make_panels(each) for each in records]
    title, *steps = map(_escape, lines)
    return _PAGE.format(
        title=title,
        style=_STYLE,
        steps="".join(f"<li>{step}</li>" for step in steps),
        columns="".join(f"<th>{_escape(panel.title)}</th>" for panel in rows[0]),
        rows="\n".join(
            f"<tr><th>{_escape(each.label)}</th>{''.join(map(_make_cell, row))}</tr>"
            for each, row in zip(records, rows, strict=True)
        ),
        options=_escape(options),
    )


def _escape(text: str) -> str:
    return html.escape(printable_text(text))


def _make_cell(panel: Panel) -> str:
    file = io.BytesIO()
    Image.fromarray(panel.pixels).save(file, "PNG")
    source = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    height, width = panel.pixels.shape[:2]
    captions = "".join(f"<small>{_escape(caption)}</small>" for caption in panel.captions)
    alt = _escape(panel.title)
    image = f'<img alt="{alt}" width="{width}" height="{height}" src="{source}">'
    return f"<td>{image}{captions}</td>"
