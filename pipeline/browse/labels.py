"""What the images of a data set are said to be: the index's column of it, and its names."""

import dataclasses
from typing import Any

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_file import index_name
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.labels.kinds import MASKS, find_kind
from image_pipeline.show.words import count_names, format_fact

# Of masks, whose ids count from 0.
_OF_NO_CLASS = (0, record.IGNORED)


@dataclasses.dataclass(frozen=True)
class Labels:
    """A column of labels.

    Attributes:
      column: what the index calls it: of texts, of numbers, or of lists of them.
      names: what may be searched for; empty for tags, which no manifest lists, and for numbers.
      first_id: the id of the first name, where the column holds ids; None where it holds names.
    """

    column: str
    names: tuple[str, ...] = ()
    first_id: int | None = None

    def find(self, name: str) -> str | int:
        """What the column holds for a name; for one that there is not, what no row holds."""
        if self.first_id is None:
            return name
        return self.names.index(name) + self.first_id if name in self.names else -1

    def say(self, value: Any) -> str:
        """A row's value in words; "" if it has none."""
        if isinstance(value, list):
            named = (each for each in value if (self.first_id, each) != _OF_NO_CLASS)
            return count_names(str(self._name(each)) for each in named)
        return value if isinstance(value, str) else "" if value is None else format_fact(value)

    def _name(self, value: str | int) -> str | int:
        if self.first_id is None or not isinstance(value, int):
            return value
        place = value - self.first_id
        return self.names[place] if 0 <= place < len(self.names) else value


def find_labels(manifest: Manifest) -> Labels:
    """Boxes' classes, masks' classes, tags, numbers or the class: what a data set has of these."""
    kind = find_kind(manifest.columns)
    if kind.moves:
        column = "mask_ids" if kind is MASKS else index_name(record.BOX_LABEL)
        return Labels(column, kind.class_names(manifest), first_id=int(kind is not MASKS))
    if manifest.label is not None:
        return Labels(index_name(manifest.label))
    return Labels("label", manifest.class_names)
