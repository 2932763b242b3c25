"""Some records as they are stored: their images, and what is said of them."""

from typing import Any

import numpy as np

from image_pipeline.components.arrays.in_place import fetch
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.stored import IMAGE_KEYS, take_image
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.found_columns import read_manifests
from image_pipeline.components.feeding.tags import SEPARATOR
from image_pipeline.components.labels.kind import LabelKind
from image_pipeline.components.labels.kinds import BOXES, MASKS
from image_pipeline.components.views.fast_decode import decode_image, decode_mask
from image_pipeline.show.box_overlay import NamedBoxes
from image_pipeline.show.mask_overlay import make_colors
from image_pipeline.show.words import count_names, format_fact


class StoredViews:
    """Some records, parsed.

    Attributes:
      kind: of labels, where they move with the images.
      serialized: object [n], the records.
      drawn: the same, parsed.
      labels: what each image is said to be: its class, tags, value, or its boxes.
      mask_colors: uint8 [256, 3], of masks' ids; None without masks.
    """

    def __init__(self, paths: list[str], chosen: np.ndarray, kind: LabelKind):
        """Parses records.

        Args:
          paths: of the shards that they are from.
          chosen: object [n], serialized records.
          kind: of their labels.
        """
        self.kind = kind
        self._manifest = next(iter(read_manifests(paths).values()), None)
        self._label = None if self._manifest is None else self._manifest.label
        own = [] if self._label is None else [self._label]
        own += [record.BOX_TEXT] if kind is BOXES else []
        columns = parse.columns_to_parse([*kind.columns, *own])
        self.serialized = chosen
        self.drawn = parse.as_drawn(parse.parse_batch(chosen, columns))
        options = None if self._manifest is None else self._manifest.options.get("masks")
        self.mask_colors = make_colors(options) if kind is MASKS else None
        self.labels = [self._say_label(number) for number in range(len(chosen))]

    def decode(self, number: int) -> np.ndarray:
        """One of the images: uint8 [height, width, channels]."""
        image = fetch(take_image({key: self.drawn[key][number].numpy() for key in IMAGE_KEYS}))
        return decode_image(image, image.channels)

    def decode_mask(self, number: int) -> np.ndarray:
        """The mask of one of the images: uint8 [height, width, 1]."""
        size = (int(self.drawn[record.HEIGHT][number]), int(self.drawn[record.WIDTH][number]))
        return decode_mask(self.drawn[record.MASK][number].numpy(), size)

    def read_boxes(self, number: int) -> NamedBoxes:
        """The boxes of one of the images, with its crowds."""
        sides = [self._cell(column, number) for column in BOXES.columns]
        is_box = sides[4] > 0  # The others pad the list.
        places = np.stack(sides[:4], axis=1)[is_box]
        named = self.name_boxes(places, (sides[4][is_box] - 1).tolist())
        return named.mark_crowds(sides[5][is_box].tolist())

    def name_boxes(self, places: np.ndarray, ids: list[int]) -> NamedBoxes:
        """Boxes by the ids of their classes, from 0 on."""
        names = None if self._manifest is None else BOXES.class_names(self._manifest)
        texts = (names[id_] if names and id_ < len(names) else str(id_) for id_ in ids)
        return NamedBoxes(places, tuple(ids), tuple(texts))

    def _cell(self, column: record.Column, number: int) -> Any:
        return self.drawn[column.key][number].numpy()

    def _say_label(self, number: int) -> str:
        if self.kind is BOXES:
            return count_names(self.read_boxes(number).names) or "no box"
        if self._label is None:
            return self.drawn["label"][number].numpy().decode(errors="replace")
        said = self._cell(self._label, number)
        if self._label.is_list:
            return ", ".join(said.decode(errors="replace").split(SEPARATOR)) or "no tag"
        return format_fact(float(said))
