"""The page: figures, thumbnails and charts through the template, in one file."""

from typing import Any

import jinja2
from markupsafe import Markup

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.names import printable_text
from image_pipeline.named_folder import find_whole_run
from image_pipeline.report import charts
from image_pipeline.report.data_set import DataSet, open_data_set
from image_pipeline.report.figures import gather_figures
from image_pipeline.report.thumbnails import Thumbnails
from image_pipeline.show import words
from image_pipeline.show.evaluated import format_measured

# A section's id and heading, in the order of the page.
SECTIONS = {
    "books": "Counts and books",
    "classes": "Classes and splits",
    "shapes": "Sizes and formats",
    "pixels": "Pixels",
    "samples": "Samples of every class",
    "quarantine": "Quarantine",
    "duplicates": "Duplicates",
    "near_duplicates": "Look-alikes",
    "conflicts": "Conflicting labels",
    "leakage": "Leakage between splits",
    "anomalies": "Anomalies",
    "shards": "Shards",
    "shuffle": "Shuffle quality",
    "training": "Training",
    "evaluation": "Evaluation",
    "versions": "Versions and options",
    "difference": "What changed",
}
# How the template calls what puts a value into words.
_FILTERS = {
    "value": words.format_value,
    "bytes": words.format_bytes,
    "count": words.format_count,
    "share": words.format_share,
    "fact": words.format_fact,
    "change": words.format_change,
    "measured": format_measured,
    "range": words.format_range,
    "breakable": words.make_breakable,
    "seconds": words.format_seconds,
}


def write_report(folder: str, against: str | None, output_path: str) -> dict[str, Any]:
    """Writes the report of a data set or run as one HTML file.

    Args:
      folder: of the data set or run.
      against: another one that it is held against, or None.
      output_path: of the page.

    Returns:
      The figures, as `gather_figures` makes them.

    Raises:
      UserError: if a folder is neither a data set nor a run, or the file cannot be written.
    """
    source = find_whole_run(folder)
    other = None if against is None else find_whole_run(against)
    data = open_data_set(source.data_dir, source.manifest)
    figures = gather_figures(source, data, other)
    thumbnails = Thumbnails(data, source.data_dir)
    page = render_page(figures, thumbnails, data)
    try:
        files.write_file(output_path, page.encode(errors="replace"))
    except OSError as error:
        raise UserError(f"Cannot write {output_path!r}: {error.strerror}; set --output.") from error
    return figures


def _show_safely(value: Any) -> Any:
    """Names in a page are as safe as in a terminal; markup is our own."""
    is_plain = isinstance(value, str) and not isinstance(value, Markup)
    return printable_text(value) if is_plain else value


def render_page(figures: dict[str, Any], thumbnails: Thumbnails, data: DataSet) -> str:
    """Fills the template.

    Args:
      figures: as `gather_figures` makes them.
      thumbnails: of stored and of quarantined images.
      data: the data set, for the names of images and classes.

    Returns:
      The page.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("image_pipeline.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_show_safely,
    )
    environment.filters |= _FILTERS
    template = environment.get_template("report.html.jinja")
    return template.render(
        figures,
        sections=SECTIONS,
        charts=charts,
        thumbnails=thumbnails,
        name_source=data.name_source,
        data_label=data.name_class,
    )
