"""A sample of the data set in other encodings, and how fast those are read."""

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np

from image_pipeline.components.arrays.in_place import fetch
from image_pipeline.components.dataset import record, tfrecord
from image_pipeline.components.dataset.stored import bad_streamed_record, take_image
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.options import (
    FeedingOptions,
    ManyViewsOptions,
    SubsetOptions,
)
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from image_pipeline.components.views.fast_decode import decode_image, decode_whole
from image_pipeline.doctor.clock import time_batches
from image_pipeline.doctor.race import race
from image_pipeline.doctor.stages import count_buffered, count_images
from image_pipeline.doctor.subject import Subject, sample_records

_ENCODINGS = ("jpeg", "png", "raw")


def race_encodings(
    subject: Subject, seconds: float
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Writes a sample of records in each encoding to a temporary folder, and reads it from there.

    Returns:
      For each encoding, the images per second of the whole input in each round, and a note on its
      size.

    Raises:
      UserError: if a record is damaged.
    """
    sample = list(_take_decodable(sample_records(subject), subject.feeding))
    feeding = _stream(subject.measured, len(sample))
    settings: dict[str, Callable[[], float]] = {}
    notes = {}
    with tempfile.TemporaryDirectory(prefix="image-pipeline-") as folder:
        for encoding in _ENCODINGS:
            path = os.path.join(folder, encoding)
            mean = _write_sample(sample, encoding, path)
            notes[encoding] = f"{mean:,.0f} bytes/image"
            settings[encoding] = _open(subject, feeding, path, seconds)
        return race(settings), notes


def _take_decodable(sample: np.ndarray, feeding: FeedingOptions) -> Iterator[dict[str, Any]]:
    """The features of serialized records, without those that training skips."""
    for features in _parse(sample):
        try:
            decode_whole(fetch(take_image(features)), features[record.CHANNELS])
        except ValueError as error:
            if feeding.bad_records == "stop":
                raise bad_streamed_record(features[record.SOURCE_ID], error) from error
        else:
            yield features


def _write_sample(sample: list[dict[str, Any]], encoding: str, path: str) -> float:
    """Writes one shard; returns the mean bytes of its images."""
    records = [_reencode(features, encoding) for features in sample]
    with open(path, "wb") as file:
        file.writelines(tfrecord.frame(record.encode_example(features)) for features in records)
    return float(np.mean([len(features[record.IMAGE]) for features in records]))


def _open(
    subject: Subject, feeding: FeedingOptions, path: str, seconds: float
) -> Callable[[], float]:
    sizes = count_images(subject.read_batches(feeding, [path]))
    return lambda: time_batches(sizes, seconds, count_buffered(feeding)).images_per_s


def _stream(feeding: FeedingOptions, records: int) -> FeedingOptions:
    """The same options without those that need an index."""
    return feeding.model_copy(
        update={
            "source": "streaming",
            "remainder": "drop" if records >= feeding.batch_size else "keep",
            "select": SubsetOptions(),
            "balance": "none",
            "mix": None,
            "many_views": ManyViewsOptions(),
            "eval_subset": None,
            "bad_records": "stop",
        }
    )


def _parse(sample: np.ndarray) -> list[dict[str, Any]]:
    columns = parse.columns_of([column.key for column in record.COLUMNS])
    parsed = parse.parse_batch(sample, columns)
    features = {key: value.numpy().tolist() for key, value in parsed.items()}
    return [{key: features[key][place] for key in features} for place in range(len(sample))]


def _reencode(features: dict[str, Any], encoding: str) -> dict[str, Any]:
    """The record in another encoding; unchanged if it is the record's own."""
    if features[record.FORMAT] == encoding.encode():
        return features
    stored = fetch(take_image(features))
    channels = stored.channels
    pixels = decode_image(stored, channels)
    bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR) if channels == 3 else pixels
    lossless = cv2.imencode(".png", bgr, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
    options = {"resize": "none", "encoding": encoding, "color": "rgb" if channels == 3 else "gray"}
    prepared = prepare_image(lossless, PrepareOptions.model_validate(options))
    changed = {record.FORMAT: prepared.format.encode(), record.IMAGE: prepared.encoded}
    return {**features, **changed}
