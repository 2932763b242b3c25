"""The pictures of the page, as data URIs, each with what the page says of it and filters by."""

import contextlib
import dataclasses
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import yaml
from PIL import Image, ImageFile

from image_pipeline.components import files
from image_pipeline.components.dataset.changes import GONE, Changes
from image_pipeline.components.dataset.lists import Quarantined
from image_pipeline.components.dataset.paths import name_copy
from image_pipeline.components.images.bad_image import DECODER_ERRORS, BadImage
from image_pipeline.components.images.jpeg import has_many_scans
from image_pipeline.components.labels.kinds import BOXES
from image_pipeline.components.names import printable_text
from image_pipeline.components.sources.folder import Folder
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.config import PipelineConfig
from image_pipeline.report.data_set import DataSet
from image_pipeline.show.changes import say_values
from image_pipeline.show.html import encode_picture
from image_pipeline.show.overlays import NamedBoxes, draw_boxes, shrink
from image_pipeline.show.words import describe_steps

if TYPE_CHECKING:
    from image_pipeline.preview.samples import RecordViews

SIDE_PX = 320
"""The longer side of a picture: the page shows it smaller, and enlarges it to this."""
_QUALITY = 75
# Up to this size a lossless file is as small, and single pixels are visible.
_LOSSLESS_SIDE_PX = 48
# Quarantined files may be crafted to fill the memory of whoever opens them.
_MOST_FILE_BYTES = 64 * 2**20
_MOST_PIXELS = 64 * 2**20
_MOST_CHANGED = 24  # Pictures of files to which the same happened.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture of the page.

    Attributes:
      uri: a data URI; None if there is nothing to be seen.
      path: of the source, below the images folder.
      label: its class, tags, value or boxes; "" for none.
      names: by which the page filters: its class, its tags or the classes of its boxes.
      split: "" if it is not stored.
      prediction: what the model says of it; "" if it was not asked.
      reason: why it was rejected; "" if it was not.
      note: what else is to be said.
      size_px: width and height in which it is shown; None for those that all have.
    """

    uri: str | None
    path: str
    label: str = ""
    names: Sequence[str] = ()
    split: str = ""
    prediction: str = ""
    reason: str = ""
    note: str = ""
    size_px: tuple[int, int] | None = None

    @property
    def path_json(self) -> str:
        """The path itself, which is copied: what is shown has escapes of unsafe characters."""
        return json.dumps(self.path)

    @property
    def names_json(self) -> str:
        """The names as a list in JSON, each as the page's tables write it."""
        return json.dumps([printable_text(name) for name in self.names if name])


class Pictures:
    """Makes pictures of records, and of files that did not become any; each thumbnail once."""

    def __init__(self, data: DataSet, data_dir: str):
        self._data, self._data_dir = data, data_dir
        self._made: dict[int, str | None] = {}

    def of_row(self, row: int, *, prediction: str = "", note: str = "") -> Picture:
        """The picture of a record, by its row of the index."""
        return Picture(
            uri=self.draw_row(row),
            path=self._data.name_source(row),
            label=self._data.say_label(row),
            names=self._data.list_names(row),
            split=self._data.split_of(row),
            prediction=prediction,
            note=note,
        )

    def find(self, path: str) -> int:
        """The row of a record, by its name."""
        return self._data.find_rows([path])[path]

    def of_copy(self, path: str, label: str | None, row: int | None, note: str = "") -> Picture:
        """The picture of a file by the row of one with its bytes, which may be its own; or None."""
        if row is not None and path == self._data.name_source(row):
            return self.of_row(row, note=note)
        label, is_alike = (
            label or "",
            row is not None and (label or "") == self._data.say_label(row),
        )
        return Picture(
            uri=None if row is None else self.draw_row(row),
            path=path,
            label=label,
            names=self._data.list_names(row) if row is not None and is_alike else [label],
            note=note,
        )

    def of_rejected(self, file: Quarantined) -> Picture:
        """The picture of a file in quarantine, if there is anything that can be decoded."""
        uri = self.draw_quarantined(file.sha256)
        return Picture(uri=uri, path=file.path, reason=file.reason, note=file.message)

    def draw_row(self, row: int) -> str | None:
        """The thumbnail of a stored image; None if it cannot be decoded."""
        if row not in self._made:
            boxes = self._data.read_boxes(row) if self._data.kind is BOXES else None
            try:
                self._made[row] = make_thumbnail(self._data.read_shown(row), boxes)
            except ValueError:
                self._made[row] = None
        return self._made[row]

    def draw_quarantined(self, sha256: str | None) -> str | None:
        """The thumbnail of whatever can be decoded of a rejected file; None if nothing can."""
        if sha256 is None or not files.exists(files.join(self._data_dir, name_copy(sha256))):
            return None
        try:
            copy = ImageRef(name_copy(sha256), _MOST_FILE_BYTES + 1, 0)
            pixels = decode_what_can_be(Folder(self._data_dir).read(copy, _MOST_FILE_BYTES))
        except (OSError, BadImage):  # It may be a link out of the data set, or no file.
            return None
        return None if pixels is None else make_thumbnail(pixels)


def draw_changes(
    found: Changes, before: Pictures, now: Pictures
) -> list[tuple[str, int, list[Picture]]]:
    """What happened to files: how often each, and pictures of the first, as they are or were."""
    drawn = []
    for kind, count in ((kind, count) for kind, count in found.counts.items() if count):
        changed = (each for each in found.files if kind in each.kinds)
        first = [
            side.of_row(side.find(each.name), note=say_values(each))
            for each in itertools.islice(changed, _MOST_CHANGED)
            for side in [before if GONE in each.kinds else now]
        ]
        drawn.append((kind, count, first))
    return drawn


def make_thumbnail(pixels: np.ndarray, boxes: NamedBoxes | None = None) -> str:
    """Shrinks an image, and writes it as a data URI.

    Args:
      pixels: uint8 [height, width, 1 or 3].
      boxes: what is drawn on the small image.
    """
    small = shrink(pixels, SIDE_PX)
    small = small if boxes is None else draw_boxes(small, boxes)
    if max(small.shape) <= _LOSSLESS_SIDE_PX:
        return encode_picture(small, "png").as_uri()
    return encode_picture(small, "webp", quality=_QUALITY).as_uri()


def decode_what_can_be(encoded: bytes) -> np.ndarray | None:
    """Leniently decodes a file that ingest refused: uint8 [height, width, 3], or None."""
    if has_many_scans(encoded):
        return None
    try:
        with _truncated_images_load(), Image.open(io.BytesIO(encoded)) as image:
            if image.width * image.height > _MOST_PIXELS:
                return None
            return np.asarray(image.convert("RGB"))
    except DECODER_ERRORS:
        return None  # Any error: the file is known to be bad.


@contextlib.contextmanager
def _truncated_images_load() -> Iterator[None]:
    """Lets Pillow fill in missing pixels, for which it has only a process-wide switch."""
    before = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


@dataclasses.dataclass(frozen=True, kw_only=True)
class ViewsSection:
    """Records on their way to the model.

    Attributes:
      rows: the pictures of each record: stored, eval, each epoch of training, the model's input.
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
    records: "Sequence[RecordViews]", config: PipelineConfig, split: str, seed: int
) -> ViewsSection:
    """Makes the section of what training sees."""
    from image_pipeline.preview.panels import make_panels

    rows = [
        [
            Picture(
                uri=encode_picture(panel.pixels, "png").as_uri(),
                path=views.path,
                label=views.label,
                names=views.names,
                split=split,
                note=", ".join((panel.title, *panel.captions)),
                size_px=(panel.pixels.shape[1], panel.pixels.shape[0]),
            )
            for panel in make_panels(views)
        ]
        for views in records
    ]
    options = config.model_dump(mode="json", include={"view", "feeding"})
    return ViewsSection(
        rows=rows,
        split=split,
        seed=seed,
        steps=describe_steps(config.feeding.steps),
        options=yaml.safe_dump(options, sort_keys=False),
        has_input=records[0].model_input is not None,
    )
