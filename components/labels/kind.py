"""What a kind of labels is to all that handle them: ingest, feeding, the analysis, training."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from image_pipeline.components import contract
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.record import (
    BOX_CROWD,
    BOX_LABEL,
    BOX_XMAX,
    BOX_XMIN,
    BOX_YMAX,
    BOX_YMIN,
    Column,
)
from image_pipeline.components.images.prepare import PreparedImage
from image_pipeline.components.options import Options
from image_pipeline.components.views.options import ViewOptions

Tensors = Mapping[str, Any]
"""Of a batch, by their keys. (Ingest imports this without TensorFlow.)"""

COLUMNS = (*(BOX_YMIN, BOX_XMIN, BOX_YMAX, BOX_XMAX), BOX_LABEL, BOX_CROWD)
"""The columns of records that a batch's boxes are made of."""

PLACES, BOX_LABELS, VISIBLE = "boxes", "box_labels", "box_visible"
"""Keys of boxes in a batch: float32 [batch, boxes, 4], int32 [batch, boxes], float32 [batch,
boxes]."""

WEIGHTED = (
    "images by their class, but {}; leave it at none, or weigh classes in the loss of a "
    "training.model of your own."
)


@dataclasses.dataclass(frozen=True)
class Fitted:
    """What is stored of an image's label, beside the cells of its table.

    Attributes:
      row: columns of the source's row, see `ingest.prepared.ROW_SCHEMA`.
      features: instead of the last of the further cells, the features that are made of it.
      stored: bytes that are stored before the image.
      notes: what was unusual.
    """

    row: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    features: tuple[Any, ...] = ()
    stored: bytes = b""
    notes: tuple[str, ...] = ()


class LabelKind:
    """A kind of label. The defaults hold for classes, tags and values.

    Attributes:
      name: how messages call such labels.
      another: and one that differs.
      columns: of records, those that labels are made of, beside the name of a class, which all
        have.
      counted: the field of `ListedSplit` with how many pixels each id has, or boxes each class.
      moves: the fields of `augment.batch.Batch` that move with images, and the key of each in a
        batch; the first is the one that users' steps move.
      unmixed: random steps that cannot mix such labels; and why, as a message goes on.
      unweighted, unsmoothed: why images cannot be weighted by their class, and why labels cannot be
        smoothed, as messages go on; "" if they can.
      is_one_class: whether an image has one class, by its name.
    """

    name: str
    another: str = "another label"
    columns: tuple[Column, ...] = ()
    counted: str | None = None
    moves: ClassVar[Mapping[str, str]] = {}
    unmixed: tuple[tuple[type[Options], ...], str] = ((), "")
    unweighted: str = ""
    unsmoothed: str = ""
    is_one_class: bool = False

    def fit(self, cell: Any, image: PreparedImage, options: Any) -> Fitted:
        """Fits a cell of a table, or a mask's file, to the image as it is stored.

        `options` are the kind's own ones, `MaskOptions` say. Raises BadImage if it does not fit.
        """
        return Fitted()

    def count(self, rows: pa.Table) -> dict[str, Any]:
        """What a shard has of it in all, as JSON, of the rows of its sources."""
        return {}

    def add_up(self, counted: Sequence[dict[str, Any]], options: Any) -> dict[str, Any]:
        """What `ListedSplit` says of it, of the counts of a split's shards."""
        return {}

    def counts(self, manifest: Manifest, splits: Iterable[str]) -> collections.Counter[str]:
        """What `counted` says of some splits, in all."""
        counts: collections.Counter[str] = collections.Counter()
        for split in splits if self.counted else ():
            counts.update(getattr(manifest.splits[split], self.counted or "") or {})
        return counts

    def describe(self, names: Sequence[str], counts: Mapping[str, int]) -> dict[str, Any]:
        """What `analysis.json` says of it, of `class_names` and `counts`."""
        return {}

    def class_names(self, manifest: Manifest) -> tuple[str, ...]:
        """The classes in the order of the ids that records have; none where they have names."""
        return ()

    def shapes(self, view: ViewOptions, most: int | None) -> dict[str, list[int | None]]:
        """What a batch has of it: by its keys, the shape of each record's part.

        `most` is how many boxes a record has, if it has any; None where batches differ.
        """
        return {column.key: [] for column in self.columns}

    def place(self, batch: Tensors, windows: Any, view: ViewOptions, most: int | None) -> Tensors:
        """What moves as the views of images are cut out, but for pixels; see `place_boxes`."""
        return {}

    def truth(self, batch: Tensors, views: Any, min_visible: float) -> Any:
        """The labels of a batch as the model gets them, without a transform graph; see `input_fn`.

        `views` is the `augment.batch.Batch` that the random steps have made of it.
        """
        return batch[self.columns[0].key if self.columns else contract.LABEL_INPUT]
