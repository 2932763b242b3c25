"""The pictures of one record on its way to the model; TensorFlow is imported with the first."""

import collections
import dataclasses
import threading
from typing import Any

import numpy as np

from image_pipeline.browse.catalogue import Catalogue
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.labels.kinds import BOXES
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.show.shown_values import show_values

# Records whose views are kept: a page asks for each of a record's pictures by itself.
_MOST_KEPT = 8


@dataclasses.dataclass(frozen=True)
class ViewSettings:
    """What views are made with; see `preview.samples.read_views`."""

    view: ViewOptions
    feeding: FeedingOptions
    graph_dir: str | None
    epochs: int
    seed: int


class Views:
    """Makes the views of records, one after another; threads may share it."""

    def __init__(self, catalogue: Catalogue, settings: ViewSettings):
        """Makes nothing yet."""
        self._catalogue, self._settings = catalogue, settings
        self._kept: collections.OrderedDict[int, Any] = collections.OrderedDict()
        self._lock = threading.Lock()

    def list_pictures(self, number: int, drawn: bool = False) -> list[Any]:
        """The pictures of a record that training and evaluation make of the stored image.

        Args:
          number: the record's.
          drawn: whether masks and boxes lie over them, and they are magnified as on a sheet of
            `preview`; otherwise they have the very pixels of `input_fn`.

        Returns:
          `preview.panels.Panel`s: eval, each epoch of training, and the model's input if there is
          a transform graph.

        Raises:
          UserError: if the record is damaged, or a random step cannot be used.
        """
        from image_pipeline.preview.panels import list_pictures, make_panels

        views = self._make(number)
        if drawn:
            return make_panels(views)[1:]
        return list_pictures(dataclasses.replace(views, masks=None))[1:]

    def _make(self, number: int) -> Any:
        with self._lock:
            if number not in self._kept:
                self._kept[number] = self._read(number)
            self._kept.move_to_end(number)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
            return self._kept[number]

    def _read(self, number: int) -> Any:
        from image_pipeline.preview.samples import view_records

        settings, rows = self._settings, self._catalogue.rows
        numbers = [number]
        if settings.feeding.mixes_labels:  # Mixing steps pair records; with the next, or the last.
            numbers.append(number + 1 if number + 1 < len(rows) else max(0, number - 1))
        found = rows.read(numbers)
        chosen = np.empty(len(found), object)
        chosen[:] = [rows.read_record(row) for row in found]
        # Sorted, and each once: what the records have beside images is found by their shards.
        paths = sorted({rows.find_shard(row) for row in found})
        return view_records(
            paths,
            chosen,
            settings.view,
            settings.feeding,
            settings.graph_dir,
            settings.epochs,
            settings.seed,
        )[0]


def draw_stored(catalogue: Catalogue, number: int) -> np.ndarray:
    """The stored image of a record under its mask or boxes: uint8 [height, width, 1 or 3]."""
    from image_pipeline.components.feeding.found_columns import find_labels
    from image_pipeline.preview.samples import StoredViews
    from image_pipeline.show.box_overlay import draw_boxes
    from image_pipeline.show.mask_overlay import lay_over

    row = catalogue.rows.read([number])[0]
    paths = [catalogue.rows.find_shard(row)]
    chosen = np.array([catalogue.rows.read_record(row)], object)
    stored = StoredViews(paths, chosen, find_labels(paths))
    pixels = show_values(stored.decode(0))
    if stored.mask_colors is not None:
        return lay_over(pixels, stored.decode_mask(0), stored.mask_colors)
    return draw_boxes(pixels, stored.read_boxes(0)) if stored.kind is BOXES else pixels
