"""Prepared images as the records of a shard: from rows and payloads to a TFRecord file's bytes."""

import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.tfrecord import frame
from image_pipeline.components.ingest.partition import ShardTask
from image_pipeline.components.ingest.payloads import Payloads
from image_pipeline.components.sources.column_types import feature_value

BATCH_ROWS = 1024  # Rows that are Python's objects at a time.
# Records are handed on in blocks of this size: a hundred photos of 256 pixels.
_BLOCK_BYTES = 2**21

# Where a stored image is, and what it must be; then what a record needs besides.
_PLACE = ("chunk", "payload_offset", "payload_length", "payload_crc32c")
_RECORD_ROWS = [
    *_PLACE,
    *("format", "height", "width", "channels", "path", "record_id", "sha256", "label", "further"),
    "mask_length",
]


def frame_records(
    rows: pa.Table, payloads: Payloads, task: ShardTask
) -> Iterator[tuple[bytes, list[int]]]:
    """Reads and encodes a shard's records.

    Args:
      rows: the shard's, in order.
      payloads: the stored images.
      task: the shard.

    Yields:
      Some records, one after the other as the file has them, and the length of each one's data.
    """
    framed: list[bytes] = []
    size_bytes = 0
    lengths: list[int] = []
    for data in _encode_records(rows, payloads, task):
        framed.append(frame(data))
        lengths.append(len(data))
        size_bytes += len(data)
        if size_bytes >= _BLOCK_BYTES:
            yield b"".join(framed), lengths
            framed, lengths, size_bytes = [], [], 0
    yield b"".join(framed), lengths


def _encode_records(rows: pa.Table, payloads: Payloads, task: ShardTask) -> Iterator[bytes]:
    class_ids = None if task.classes is None else {n: i for i, n in enumerate(task.classes)}
    further = record.further_of(task.columns)
    for batch in rows.select(_RECORD_ROWS).to_batches(max_chunksize=BATCH_ROWS):
        for row in batch.to_pylist():
            payload = payloads.read(*(row[name] for name in _PLACE))
            values = record_values(row, payload, further, class_ids)
            yield record.encode_example(values, task.columns)


def record_values(
    row: dict,
    payload: bytes,
    further: Sequence[record.Column] = (),
    class_ids: Mapping[str, int] | None = None,
) -> dict[str, record.Value]:
    """The record of a source's row and its payload, with a table's further columns.

    Args:
      row: see `prepared_rows.ROW_SCHEMA`.
      payload: the mask, if there is one, and the image, as they are stored.
      further: the table's further columns.
      class_ids: the number of each class; None if records do not have it.
    """
    said = json.loads(row["further"]) if further else ()
    mask_length = row.get("mask_length") or 0
    masks = {record.MASK: payload[:mask_length], record.MASK_FORMAT: b"png"} if mask_length else {}
    ids = {} if class_ids is None else {record.LABEL_ID: class_ids[row["label"]]}
    return {
        **masks,
        **ids,
        **{c.key: feature_value(value) for c, value in zip(further, said, strict=True)},
        record.IMAGE: payload[mask_length:],
        record.FORMAT: row["format"].encode(),
        record.HEIGHT: row["height"],
        record.WIDTH: row["width"],
        record.CHANNELS: row["channels"],
        record.COLORSPACE: record.name_colorspace(row["channels"]),
        record.FILENAME: row["path"],
        record.SOURCE_ID: row["record_id"].hex().encode(),
        record.SHA256: row["sha256"].hex().encode(),
        record.LABEL: row["label"].encode(),
    }
