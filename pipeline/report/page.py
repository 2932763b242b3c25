"""The page: figures, thumbnails and charts in one file, by the template."""

from typing import Any

from image_pipeline.named_folder import find_whole_run
from image_pipeline.report import charts
from image_pipeline.report.data_set import DataSet, open_data_set
from image_pipeline.report.figures import gather_figures
from image_pipeline.report.thumbnails import Thumbnails
from image_pipeline.show.html import fill_template, write_output

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


def write_report(folder: str, against: str | None, output_path: str) -> dict[str, Any]:
    """Writes the report of a data set or run as one HTML file.

    Args:
      folder: the data set's or run's folder.
      against: another one to compare it with, or None.
      output_path: where the page is written.

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
    write_output(output_path, page.encode(errors="replace"))
    return figures


def render_page(figures: dict[str, Any], thumbnails: Thumbnails, data: DataSet) -> str:
    """Fills the template.

    Args:
      figures: as `gather_figures` makes them.
      thumbnails: thumbnails of stored and quarantined images.
      data: the data set, for the names of images and classes.

    Returns:
      The page.
    """
    return fill_template(
        "image_pipeline.report",
        "report.html.jinja",
        **figures,
        sections=SECTIONS,
        charts=charts,
        thumbnails=thumbnails,
        name_source=data.name_source,
        data_label=data.say_label,
    )
