"""Writes FFCV's file of a data set, in FFCV's own environment.

    python -m rivals.ffcv_write DATA_DIR

JPEG bytes go in unchanged: `RGBImageField` would decode and encode them again, so its `encode` is
replaced by one that stores the bytes it is given as the field's "jpg" mode does.
"""

import json
import pathlib
import sys

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.rgb_image import IMAGE_MODES
from ffcv.writer import DatasetWriter


class StoredRecords:
    """The records of a data set, as `DatasetWriter.from_indexed_dataset` wants them."""

    def __init__(self, data_dir: pathlib.Path) -> None:
        """Opens what `data.py` has packed."""
        self._records = np.load(data_dir / "records.npy")
        self._payload = np.memmap(data_dir / "payload.bin", np.uint8, "r")

    def __len__(self) -> int:
        """How many records there are."""
        return len(self._records)

    def __getitem__(self, number: int) -> tuple[tuple[np.ndarray, int, int], int]:
        """A record: (stored bytes uint8 [bytes], height, width), and its label."""
        offset, length, height, width, label = self._records[number].tolist()
        return (self._payload[offset : offset + length], height, width), label


class StoredImageField(RGBImageField):
    """Stores bytes as they are."""

    def encode(self, destination, image, malloc) -> None:
        """Writes one record: `image` is uint8 [bytes], its height and its width."""
        stored, height, width = image
        destination["mode"] = IMAGE_MODES[self.write_mode]
        destination["height"], destination["width"] = height, width
        destination["data_ptr"], storage = malloc(stored.nbytes)
        storage[:] = stored


def main() -> None:
    """Writes `images.beton`."""
    data_dir = pathlib.Path(sys.argv[1])
    encoding = json.loads((data_dir / "meta.json").read_text())["format"]
    # The file names a field's type by the class itself: a subclass would need a reader of its own.
    RGBImageField.encode = StoredImageField.encode
    fields = {
        "image": RGBImageField(write_mode={"jpeg": "jpg", "raw": "raw"}[encoding]),
        "label": IntField(),
    }
    writer = DatasetWriter(str(data_dir / "images.beton"), fields, num_workers=1)
    writer.from_indexed_dataset(StoredRecords(data_dir))


if __name__ == "__main__":
    main()
