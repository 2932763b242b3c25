"""What training decodes of its images: of JPEGs in tiles, no more than the random crops need."""

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from image_pipeline.components.arrays.in_place import fetch
from image_pipeline.components.augment.crop import draw_crop_windows
from image_pipeline.components.dataset.stored import (
    IMAGE_KEYS,
    StoredImage,
    StoredRecords,
    take_image,
)
from image_pipeline.components.feeding import parse
from image_pipeline.components.views.fast import find_needed
from image_pipeline.components.views.fast_decode import decode_window
from image_pipeline.doctor.subject import Subject, draw_rows, stream_batches

Decoding = Callable[[], np.ndarray]


def list_decodings(subject: Subject) -> Iterator[list[Decoding]]:
    """For batch after batch, without an end, what reads and decodes each of its images."""
    generator = np.random.default_rng(0)
    index, verify = subject.records.index, subject.feeding.verify != "none"
    if index is None:
        for batch in stream_batches(subject, None):
            images = _list_images(batch)
            sizes = np.array([(image.height, image.width) for image in images])
            yield [
                functools.partial(_decode, subject, image, window)
                for image, window in zip(images, _draw(subject, sizes, generator), strict=True)
            ]
        return
    records, sizes = StoredRecords(index), np.stack([index.height, index.width], axis=1)

    def decode_row(row: int, window: np.ndarray | None) -> np.ndarray:
        return _decode(subject, records.read_image(row, verify), window)

    for rows in draw_rows(subject, None):
        windows = _draw(subject, sizes[rows], generator)
        yield [
            functools.partial(decode_row, row, window)
            for row, window in zip(rows, windows, strict=True)
        ]


def _draw(
    subject: Subject, sizes: np.ndarray, generator: np.random.Generator
) -> Sequence[np.ndarray | None]:
    """Draws crops as training does, of images of these sizes (int [n, 2])."""
    if subject.feeding.crop is None:
        return [None] * len(sizes)
    keys = generator.integers(0, 2**64, len(sizes), np.uint64)
    return draw_crop_windows(sizes, keys, subject.feeding.crop).numpy()


def _decode(subject: Subject, image: StoredImage, window: np.ndarray | None) -> np.ndarray:
    needed = find_needed((image.height, image.width), window, subject.view)
    return decode_window(fetch(image), subject.view.channels, needed)


def _list_images(batch: np.ndarray) -> list[StoredImage]:
    parsed = parse.parse_batch(batch, parse.columns_to_parse(()))
    columns = [parsed[key].numpy() for key in IMAGE_KEYS]
    return [
        take_image(dict(zip(IMAGE_KEYS, values, strict=True)))
        for values in zip(*columns, strict=True)
    ]
