"""The page: facts, pictures and charts in one file, by one template; a section each."""

import base64
import dataclasses
import hashlib
import importlib.resources
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.messages import describe_error
from image_pipeline.config import PipelineConfig
from image_pipeline.named_folder import Source, find_whole_run, list_split
from image_pipeline.report import charts
from image_pipeline.report.data_set import open_data_set
from image_pipeline.report.figures import gather_figures
from image_pipeline.report.notices import name_labels
from image_pipeline.report.pictures import Pictures, draw_changes, draw_views
from image_pipeline.run_config import dump_stored, find_options
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
        "licences": "Licences",
        "shapes": "Sizes and formats",
        "pixels": "Pixels",
        "shards": "Shards",
        "shuffle": "How well it is shuffled",
    },
    "Views": {"views": "What training sees"},
    "Run": {
        "training": "Training",
        "speed": "What limits training",
        "evaluation": "Evaluation in detail",
        "history": "Runs of this folder",
        "versions": "Versions and options",
        "difference": "What changed",
    },
}
SECTIONS = tuple(name for group in GROUPS.values() for name in group)
_SCRIPT = "report.js"
# Of a run, so many records are drawn as training sees them, in so many epochs.
_VIEWED, _EPOCHS = 4, 3


def write_report(folder: str, against: str | None, output_path: str) -> dict[str, Any]:
    """Writes the report of a data set or run as one HTML file.

    Returns:
      The figures, as `gather_figures` makes them.

    Raises:
      UserError: if a folder is neither a data set nor a run, or the file cannot be written.
    """
    figures, page = make_report(folder, against)
    write_output(output_path, page)
    return figures


def make_report(folder: str, against: str | None = None) -> tuple[dict[str, Any], bytes]:
    """The figures and the page of `write_report`."""
    source = find_whole_run(folder)
    other = None if against is None else find_whole_run(against)
    data = open_data_set(source.data_dir, source.manifest)
    options = find_options(source)
    figures = gather_figures(source, data, options, other)
    values = figures | {"absent": dict(figures["absent"])}
    values["views"] = _draw_views(source, options, values["absent"])
    if figures["speed"] is not None:
        from image_pipeline.doctor import show as doctor

        known = dump_stored(options) if isinstance(options, PipelineConfig) else None
        values |= {"doctor": doctor, "measured": doctor.say_when(figures["speed"], known)}
    if figures["history"] is not None:
        from image_pipeline.show.history import say_model, say_step

        values |= {"say_model": say_model, "say_step": say_step}
    pictures = Pictures(data, source.data_dir)
    if other is not None:
        before = Pictures(open_data_set(other.data_dir, other.manifest), other.data_dir)
        values["changed"] = draw_changes(figures["changes"], before, pictures)
    title = f"Report of the {figures['kind']} {folder}"
    return figures, render_page(title, GROUPS, values, pictures, figures["label_kind"])


def render_page(
    title: str,
    groups: Mapping[str, Mapping[str, str]],
    values: Mapping[str, Any],
    pictures: Pictures | None = None,
    label_kind: str = "classes",
) -> bytes:
    """Fills the one template that all pages share.

    The page carries its one script, and a policy by which a browser runs no other, whatever a name
    in the data holds, and loads nothing.

    Args:
      title: the page's heading.
      groups: the sections of the page, as in `GROUPS`; each group has a template of its name.
      values: what the sections show, and `absent`: why one shows nothing, by its name.
      pictures: makes the pictures of records and of rejected files, for all sections but `views`.
      label_kind: of the data set.
    """
    script = importlib.resources.files(__package__).joinpath(_SCRIPT).read_text()
    labels = name_labels(label_kind)
    named = {
        group: {name: heading.format(labels=labels) for name, heading in own.items()}
        for group, own in groups.items()
    }
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = fill_template(
        "image_pipeline.report",
        "page.html.jinja",
        **values,
        title=title,
        labels=labels,
        groups=named,
        sections={name: heading for own in named.values() for name, heading in own.items()},
        charts=charts,
        pictures=pictures,
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )
    return page.encode(errors="replace")


def _draw_views(
    source: Source, config: PipelineConfig | UserError | None, absent: dict[str, str]
) -> Any:
    """The section of what training sees; None with why in `absent`."""
    if source.graph_dir is None or config is None:
        absent["views"] = (
            "How views are made is known by a run's options; for a data set alone, "
            "image-pipeline preview draws them by the options that you name."
        )
        return None
    try:
        if isinstance(config, UserError):
            raise config
        from image_pipeline.preview.samples import read_views

        shards = [list_split(source.data_dir, "train")]
        options, seed = (config.view, config.feeding), config.training.seed
        records = read_views(shards, *options, source.graph_dir, _VIEWED, _EPOCHS, seed)
        section = draw_views(records, config, "train", seed)
    except Exception as error:  # Of a user's own step, or of TensorFlow over a damaged record.
        absent["views"] = str(find_user_error(error) or describe_error(error))
        return None
    return dataclasses.replace(section, options="")  # "Versions and options" has them.
