"""Pictures of a data set, for notebooks: its classes, and each image on its way to the model."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from components import record, views
from components.feeding import augment, parse, streaming
from components.feeding.graph import TransformGraph
from components.feeding.options import AugmentOptions
from components.view_options import ViewOptions

# Normalised pixels have mean 0 and standard deviation 1; few of them lie outside of ±2.5.
_MODEL_INPUT_RANGE = (-2.5, 2.5)
_EVAL_COLOR, _TRAIN_COLOR = "#d9822b", "#3b6ea5"


@dataclasses.dataclass(frozen=True)
class RecordViews:
    """One record on its way to the model.

    Attributes:
      label: the class's name.
      stored: uint8 [height, width, channels], as ingest stored it.
      train: uint8 [epochs, height_px, width_px, channels], what training sees, epoch by epoch.
      eval: uint8 [height_px, width_px, channels], what evaluation and serving see.
      model_input: float32 [height_px, width_px, channels], the eval view after the graph.
    """

    label: str
    stored: np.ndarray
    train: np.ndarray
    eval: np.ndarray
    model_input: np.ndarray


def read_views(
    files: Sequence[str],
    view: ViewOptions,
    augment_options: AugmentOptions,
    transform_graph_dir: str,
    records: int = 4,
    epochs: int = 4,
    seed: int = 0,
) -> list[RecordViews]:
    """Makes the views that training, evaluation and the model get of the first records.

    Args:
      files: TFRecord paths or patterns.
      view: the model's input size.
      augment_options: how random the training views are.
      transform_graph_dir: the folder of the transform graph.
      records: how many records to look at (fewer, if there are fewer).
      epochs: how many epochs of training views to make.
      seed: of training.

    Returns:
      Each record's views.
    """
    transform = TransformGraph(transform_graph_dir)
    columns = (*parse.IMAGE_COLUMNS, parse.SOURCE_ID_COLUMN, parse.LABEL_COLUMN)
    shards = map(streaming.read_shard, streaming.match_files(files))
    found = []
    for serialized in itertools.islice(itertools.chain.from_iterable(shards), records):
        features = parse.parse_record(serialized, columns)
        seeds = [augment.record_seed(seed, n, features[record.SOURCE_ID]) for n in range(epochs)]
        stored = parse.decode_record(features, view.channels)
        eval_view = views.eval_view(stored, view)
        found.append(
            RecordViews(
                label=features[record.LABEL].numpy().decode(),
                stored=stored.numpy(),
                train=np.stack(
                    [augment.train_view(features, each, view, augment_options) for each in seeds]
                ),
                eval=eval_view.numpy(),
                model_input=transform.transform_images(eval_view[None])[0].numpy(),
            )
        )
    return found


def plot_views(records: Sequence[RecordViews]) -> Figure:
    """Draws a row for each record: stored, training's epochs, evaluation's, and the model's input.

    Args:
      records: as `read_views` makes them, all with the same number of epochs.

    Returns:
      The figure.
    """
    epochs = len(records[0].train)
    titles = ["stored", *(f"train, epoch {n}" for n in range(epochs)), "eval", "model's input"]
    figure = Figure(figsize=(1.5 * len(titles), 1.6 * len(records) + 0.3), layout="constrained")
    grid = figure.subplots(len(records), len(titles), squeeze=False)
    for row, each in zip(grid, records, strict=True):
        pixels = [each.stored, *each.train, each.eval, scale_to_display(each.model_input)]
        for axes, image in zip(row, pixels, strict=True):
            _show_image(axes, image)
        row[0].set_ylabel(each.label, fontsize=10, rotation=0, ha="right", va="center")
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title, fontsize=9)
    return figure


def plot_classes(counts: pd.DataFrame) -> Figure:
    """Draws how many records each class has in each split, one bar a class.

    Args:
      counts: records, a row for each class and a column for each split.

    Returns:
      The figure.
    """
    figure = Figure(figsize=(min(14, 3 + 0.5 * len(counts)), 2.8), layout="constrained")
    axes = figure.subplots()
    colors = {"train": _TRAIN_COLOR, "eval": _EVAL_COLOR}
    total = np.zeros(len(counts))
    names = [str(name) for name in counts.index]
    for split in counts.columns:
        axes.bar(names, counts[split], bottom=total, label=split, color=colors.get(split))
        total += counts[split].to_numpy()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylabel("records")
    axes.tick_params(axis="x", rotation=90 if max(map(len, names), default=0) > 5 else 0)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def scale_to_display(pixels: np.ndarray) -> np.ndarray:
    """Scales normalised pixels so that the data set's mean is mid-grey.

    Args:
      pixels: float32 [height, width, channels], mean 0 and standard deviation 1.

    Returns:
      float32 [height, width, channels] from 0 to 1; what lies outside ±2.5 is clipped.
    """
    least, most = _MODEL_INPUT_RANGE
    return np.clip((pixels - least) / (most - least), 0, 1)


def _show_image(axes: Axes, image: np.ndarray) -> None:
    """Shows uint8 or 0-to-1 float pixels [height, width, 1 or 3], each pixel a sharp square."""
    white = 255 if image.dtype == np.uint8 else 1
    axes.imshow(
        image[..., 0] if image.shape[-1] == 1 else image,
        cmap="gray",
        vmin=0,
        vmax=white,
        interpolation="nearest",
    )
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_xlabel(f"{image.shape[1]}×{image.shape[0]}", fontsize=7, color="gray", labelpad=2)
