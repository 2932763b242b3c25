"""What training sees of some records, as pictures of the page."""

import dataclasses
from collections.abc import Sequence

import yaml
from PIL import Image

from image_pipeline.config import PipelineConfig
from image_pipeline.preview.panels import make_panels
from image_pipeline.preview.samples import RecordViews
from image_pipeline.report.pictures import Picture
from image_pipeline.show.html import make_data_uri
from image_pipeline.show.words import describe_steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class ViewsSection:
    """Records on their way to the model.

    Attributes:
      rows: the pictures of each record: stored, eval, each epoch of training, the model's input.
      split: of the records.
      seed: of training.
      steps: the random steps, a line each.
      options: what made the views, as YAML; "" where the page has them elsewhere.
      has_input: whether the model's input is the last picture of a row.
    """

    rows: list[list[Picture]]
    split: str
    seed: int
    steps: list[str]
    options: str
    has_input: bool


def draw_views(
    records: Sequence[RecordViews], config: PipelineConfig, split: str, seed: int
) -> ViewsSection:
    """Makes the section.

    Args:
      records: at least one, as `read_views` makes them.
      config: the options that they were made by.
      split: their split.
      seed: of training.
    """
    options = config.model_dump(mode="json", include={"view", "feeding"})
    return ViewsSection(
        rows=[_draw_row(each, split) for each in records],
        split=split,
        seed=seed,
        steps=describe_steps(config.feeding.steps),
        options=yaml.safe_dump(options, sort_keys=False),
        has_input=records[0].model_input is not None,
    )


def _draw_row(views: RecordViews, split: str) -> list[Picture]:
    return [
        Picture(
            uri=make_data_uri(Image.fromarray(panel.pixels), "png"),
            path=views.path,
            label=views.label,
            names=views.names,
            split=split,
            note=", ".join((panel.title, *panel.captions)),
            size_px=(panel.pixels.shape[1], panel.pixels.shape[0]),
        )
        for panel in make_panels(views)
    ]
