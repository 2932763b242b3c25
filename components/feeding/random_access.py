"""Any image of a data set by its number, without TensorFlow: for PyTorch, Grain and NumPy."""

import operator
import os
from collections.abc import Sequence
from typing import Any, Literal

import cv2
import numpy as np
import simplejpeg

from image_pipeline.components import files
from image_pipeline.components.arrays import in_place
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import Entry, read_index
from image_pipeline.components.dataset.manifest import read_whole_manifest
from image_pipeline.components.dataset.stored import StoredImage, StoredRecords
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.jpeg import MANY_SCANS, has_many_scans
from image_pipeline.components.messages import suggest

_JPEG = b"\xff\xd8"
_GRAY = cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION
_RGB = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION

Decode = Literal["pixels", "none"]


class RandomAccess:
    """The records of a split as a sequence: `len(records)`, `records[number]`.

    This is all that PyTorch asks of a map-style `Dataset` (which it need not inherit from) and
    Grain of a random access source. Records are in the order in which ingest shuffled them, and
    numbered from 0. Threads may share it, and processes that were forked; pickled, as for processes
    that are spawned, it is its arguments, and reads the index again.
    """

    def __init__(
        self,
        data_dir: str,
        split: str = "train",
        *,
        columns: Sequence[str] = (),
        decode: Decode = "pixels",
        verify: bool = True,
    ):
        """Opens the index of the split.

        Args:
          data_dir: the folder that ingest wrote.
          split: whose records are read.
          columns: further features, by their keys, such as `image/filename`, that items have, too.
          decode: whether an item's image is its `pixels`, or ("none") the bytes as stored.
          verify: whether the checksums of what is read are verified: 0.1 ms per megabyte.

        Raises:
          UserError: if there is no such data set, split or column, or the index was changed.
        """
        self._arguments: dict[str, Any] = {"columns": tuple(columns), "decode": decode}
        self._arguments |= {"data_dir": data_dir, "split": split, "verify": verify}
        self._manifest = read_whole_manifest(data_dir)
        shards = self._manifest.find_split(split, data_dir).shards
        keys = [column.key for column in self._manifest.columns]
        _check_named("decode", [decode], ["pixels", "none"])
        _check_named("columns", columns, keys)
        self._has_masks = record.MASK_COLUMN in self._manifest.columns
        self._index = read_index([files.join(data_dir, shard.file) for shard in shards])
        self._class_ids = self._number_classes()
        self._open()

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes in the order of the ids that items have: those of all splits."""
        return self._manifest.class_names

    @property
    def checksum(self) -> str | None:
        """Of the data set's manifest: it tells data sets apart. None of very old ones."""
        return self._manifest.checksum

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Reads one record.

        Args:
          number: of the record; negative ones count from the end.

        Returns:
          `image`: uint8 [height, width, channels] (or of the type that the data set has), or the
          bytes as they are stored; `label`: the number of its class in `classes`, if images have
          classes; `mask`: uint8 [height, width], ids of classes, if they have masks; and a value
          for each of `columns`, by its key.

        Raises:
          IndexError: if there is no such record.
          UserError: if it is damaged; the message names its shard and its source.
        """
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Reads several records, which PyTorch asks for a batch at a time."""
        rows = np.array([self._find_row(number) for number in numbers], np.int64)
        if os.getpid() != self._pid:  # Forked: another thread may have held the lock meanwhile.
            self._open()
        return [self._read(entry) for entry in self._index.locate(rows)]

    def _read(self, entry: Entry) -> dict[str, Any]:
        serialized = self._records.read(entry, self._arguments["verify"])
        encoded = memoryview(serialized)[len(serialized) - entry.image_length :]  # Its end.
        sides = entry.height, entry.width, entry.channels
        stored = StoredImage(encoded, *sides, entry.is_raw, self._index.dtype)
        as_stored = self._arguments["decode"] == "none"
        try:
            fetched = in_place.fetch(stored)
            image = bytes(fetched.encoded) if as_stored else decode(fetched)
            item: dict[str, Any] = {"image": image}
            if self._class_ids is not None:
                item["label"] = int(self._class_ids[entry.label])
            if self._arguments["columns"] or self._has_masks:
                item |= self._take_features(serialized)
        except ValueError as error:
            raise self._records.bad_record(entry, error) from error
        return item

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the arguments, and which data set they meant."""
        return _open_again, (self._arguments, self._manifest.checksum)

    def __repr__(self) -> str:
        """Is the same in every process, since Grain compares it when training goes on."""
        shown = ", ".join(f"{name}={value!r}" for name, value in sorted(self._arguments.items()))
        return f"RandomAccess({shown}, checksum={self._manifest.checksum!r})"

    def _open(self) -> None:
        self._pid, self._records = os.getpid(), StoredRecords(self._index)

    def _number_classes(self) -> np.ndarray | None:
        """The id of each of the index's classes, which are those of one split only."""
        if not self.classes:
            return None
        ids = {name: number for number, name in enumerate(self.classes)}
        return np.array([ids[name] for name in self._index.classes], np.int64)

    def _find_row(self, number: int) -> int:
        row = operator.index(number)
        row += len(self) if row < 0 else 0
        if not 0 <= row < len(self):
            raise IndexError(f"the split has the records 0 to {len(self) - 1}, got {number}")
        return row

    def _take_features(self, serialized: bytes) -> dict[str, Any]:
        features = record.decode_example(serialized, self._manifest.columns)
        taken = {key: features[key] for key in self._arguments["columns"]}
        if self._has_masks:
            ids = cv2.imdecode(np.frombuffer(features[record.MASK], np.uint8), _GRAY)
            if ids is None:
                raise ValueError("its mask cannot be decoded")
            taken["mask"] = ids
        return taken


def decode(image: StoredImage) -> np.ndarray:
    """Decodes a stored image, to the same pixels as training sees.

    Args:
      image: JPEG, PNG or raw pixels.

    Returns:
      uint8 [height, width, channels], or of the type that raw pixels have; it can be written to.

    Raises:
      ValueError: if it cannot be decoded, or has another size than its record says.
    """
    shape = (image.height, image.width, image.channels)
    if image.is_raw:
        values = np.frombuffer(image.encoded, np.dtype(image.dtype).newbyteorder("<"))
        if values.size != np.prod(shape):
            raise ValueError(f"it has {values.size} values, not those of the shape {shape}")
        return values.reshape(shape).copy()
    if image.encoded[:2] == _JPEG:
        if has_many_scans(image.encoded):
            raise ValueError(f"its image is {MANY_SCANS}")
        pixels = simplejpeg.decode_jpeg(
            image.encoded, "GRAY" if image.channels == 1 else "RGB", strict=True
        )
    else:
        color = _GRAY if image.channels == 1 else _RGB
        pixels = cv2.imdecode(np.frombuffer(image.encoded, np.uint8), color)
        if pixels is None:
            raise ValueError("its image cannot be decoded")
    if pixels.shape[:2] != shape[:2]:
        raise ValueError(f"its image has {pixels.shape[0]} x {pixels.shape[1]} pixels, not {shape}")
    return pixels.reshape(shape)


def _open_again(arguments: dict[str, Any], checksum: str | None) -> RandomAccess:
    opened = RandomAccess(**arguments)
    if opened.checksum != checksum:
        raise UserError(
            f"The data set {arguments['data_dir']!r} was replaced since these records were opened; "
            "open it again."
        )
    return opened


def _check_named(argument: str, values: Sequence[str], known: Sequence[str]) -> None:
    for value in values:
        if value not in known:
            raise UserError(
                f"{argument} must name what there is, {', '.join(known)}, got {value!r}; "
                f"{suggest(value, known)}".rstrip("; ")
            )
