"""The pictures of the page, each with what the page says of it and filters by."""

import dataclasses

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
      split: "" if it is not stored.
      prediction: what the model says of it; "" if it was not asked.
      reason: why it was rejected; "" if it was not.
      note: what else is to be said.
    """

    uri: str | None
    path: str
    label: str = ""
    split: str = ""
    prediction: str = ""
    reason: str = ""
    note: str = ""


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
            split=self._data.splits[self._data.split[row]],
            prediction=prediction,
            note=note,
        )

    def of_copy(self, path: str, label: str | None, row: int | None, note: str = "") -> Picture:
        """The picture of a file that repeats another's bytes, whose row is None if not stored."""
        uri = None if row is None else self._thumbnails.of_row(row)
        return Picture(uri=uri, path=path, label=label or "", note=note)

    def of_rejected(self, file: RejectedFile, reason: str) -> Picture:
        """The picture of a file in quarantine, if there is anything that can be decoded."""
        uri = self._thumbnails.of_quarantined(file.sha256)
        return Picture(uri=uri, path=file.path, reason=reason, note=file.message)
