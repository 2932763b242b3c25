"""What training sees of some records, as pictures of the page."""

import dataclasses

import yaml
from PIL import Image

from image_pipeline.config import PipelineConfig
from image_pipeline.preview.panels import make_panels
from image_pipeline.preview.samples import RecordViews, read_views
from image_pipeline.report.pictures import Picture
from image_pipeline.show.html import make_data_uri
from image_pipeline.show.random_steps import describe_steps


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
    pattern: str,
    config: PipelineConfig,
    graph_dir: str | None,
    *,
    split: str,
    records: int,
    epochs: int,
    seed: int,
) -> tuple[ViewsSection, list[RecordViews]]:
    """Makes the section, whose pictures have exactly the pixels of `input_fn`; and the views.

    Args:
      pattern: matches the shards of the split.
      config: the options that views are made by.
      graph_dir: the transform graph; None leaves out the model's input.
      split: name of the split.
      records: how many records, spread over the classes.
      epochs: how many views of training each has.
      seed: of training.

    Raises:
      UserError: as `read_views` does.
    """
    made_with = (config.view, config.feeding, graph_dir, records, epochs, seed)
    views = read_views([pattern], *made_with)
    options = config.model_dump(mode="json", include={"view", "feeding"})
    section = ViewsSection(
        rows=[_draw_row(each, split) for each in views],
        split=split,
        seed=seed,
        steps=describe_steps(config.feeding.steps),
        options=yaml.safe_dump(options, sort_keys=False),
        has_input=views[0].model_input is not None,
    )
    return section, views


def _draw_row(views: RecordViews, split: str) -> list[Picture]:
    return [
        Picture(
            uri=make_data_uri(Image.fromarray(panel.pixels), "png"),
            path=views.path,
            label=views.label,
            names=(views.label,),
            split=split,
            note=", ".join((panel.title, *panel.captions)),
            size_px=(panel.pixels.shape[1], panel.pixels.shape[0]),
        )
        for panel in make_panels(views)
    ]
