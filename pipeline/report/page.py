"""The page: figures, thumbnails and charts in one file, by the template."""

import base64
import hashlib
import importlib.resources
from typing import Any

from markupsafe import Markup

from image_pipeline.named_folder import find_whole_run
from image_pipeline.report import charts
from image_pipeline.report.data_set import open_data_set
from image_pipeline.report.figures import gather_figures
from image_pipeline.report.notices import name_labels
from image_pipeline.report.pictures import Pictures
from image_pipeline.report.thumbnails import Thumbnails
from image_pipeline.show.html import fill_template, write_output

# The groups of the page, and in each its sections: an id and a heading, in the order of the page.
GROUPS = {
    "Model": {"verdict": "Is the model good enough?"},
    "Classes": {"classes": "Classes and splits", "samples": "Samples of every class"},
    "Problems": {
        "quarantine": "Rejected files",
        "mislabelled": "Labels in doubt",
        "conflicts": "Same file, different {labels}",
        "duplicates": "Exact copies",
        "near_duplicates": "Look-alikes",
        "outliers": "Unlike all others",
        "leakage": "In more than one split",
        "anomalies": "Columns that do not fit",
    },
    "Data": {
        "books": "What became of the files",
        "shapes": "Sizes and formats",
        "pixels": "Pixels",
        "shards": "Shards",
        "shuffle": "How well it is shuffled",
    },
    "Run": {
        "training": "Training",
        "evaluation": "Evaluation in detail",
        "versions": "Versions and options",
        "difference": "What changed",
    },
}
SECTIONS = tuple(name for group in GROUPS.values() for name in group)
_SCRIPT = "report.js"


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
    pictures = Pictures(data, Thumbnails(data, source.data_dir))
    page = render_page(figures, pictures)
    write_output(output_path, page.encode(errors="replace"))
    return figures


def render_page(figures: dict[str, Any], pictures: Pictures) -> str:
    """Fills the template.

    The page carries its one script, and a policy by which a browser runs no other, whatever a name
    in the data holds, and loads nothing.

    Args:
      figures: as `gather_figures` makes them.
      pictures: makes the pictures of records and of rejected files.

    Returns:
      The page.
    """
    script = importlib.resources.files(__package__).joinpath(_SCRIPT).read_text()
    labels = name_labels(figures["label_kind"])
    groups = {
        group: {name: heading.format(labels=labels) for name, heading in own.items()}
        for group, own in GROUPS.items()
    }
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return fill_template(
        "image_pipeline.report",
        "report.html.jinja",
        **figures,
        labels=labels,
        groups=groups,
        sections={name: heading for own in groups.values() for name, heading in own.items()},
        charts=charts,
        pictures=pictures,
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )
