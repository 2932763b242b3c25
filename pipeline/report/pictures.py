"""The pictures of the page, each with what the page says of it and filters by."""

import dataclasses
import json

from image_pipeline.components.names import printable_text
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.problems import RejectedFile
from image_pipeline.report.thumbnails import Thumbnails


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
    names: tuple[str, ...] = ()
    split: str = ""
    prediction: str = ""
    reason: str = ""
    note: str = ""
    size_px: tuple[int, int] | None = None

    @property
    def names_json(self) -> str:
        """The names as a list in JSON, each as the page's tables write it."""
        return json.dumps([printable_text(name) for name in self.names if name])


class Pictures:
    """Makes pictures of records, and of files that did not become any."""

    def __init__(self, data: DataSet, thumbnails: Thumbnails):
        """Takes the data set, and what makes its thumbnails."""
        self._data = data
        self._thumbnails = thumbnails

    def of_row(self, row: int, *, prediction: str = "", note: str = "") -> Picture:
        """The picture of a record, by its row of the index."""
        return Picture(
            uri=self._thumbnails.of_row(row),
            path=self._data.name_source(row),
            label=self._data.say_label(row),
            names=tuple(self._data.list_names(row)),
            split=self._say_split(row),
            prediction=prediction,
            note=note,
        )

    def of_copy(self, path: str, label: str | None, row: int | None, note: str = "") -> Picture:
        """The picture of a file that repeats another's bytes, whose row is None if not stored."""
        label = label or ""
        if row is None:
            return Picture(uri=None, path=path, label=label, names=(label,), note=note)
        is_stored = path == self._data.name_source(row)
        is_alike = is_stored or label == self._data.say_label(row)
        return Picture(
            uri=self._thumbnails.of_row(row),
            path=path,
            label=label,
            names=tuple(self._data.list_names(row)) if is_alike else (label,),
            split=self._say_split(row) if is_stored else "",
            note=note,
        )

    def of_rejected(self, file: RejectedFile, reason: str) -> Picture:
        """The picture of a file in quarantine, if there is anything that can be decoded."""
        uri = self._thumbnails.of_quarantined(file.sha256)
        return Picture(uri=uri, path=file.path, reason=reason, note=file.message)

    def _say_split(self, row: int) -> str:
        return self._data.splits[self._data.split[row]]
