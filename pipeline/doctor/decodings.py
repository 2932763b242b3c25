"""What training decodes of its images: of JPEGs in tiles, no more than the random crops need."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from image_pipeline.components.arrays.in_place import fetch
from image_pipeline.components.augment.crop import draw_crop_windows
from image_pipeline.components.dataset.stored import (
    IMAGE_KEYS,
    StoredImage,
    StoredRecords,
    take_image,
)
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.views.fast import find_needed
from image_pipeline.components.views.fast_decode import decode_window
from image_pipeline.doctor.subject import Subject, draw_rows, stream_batches

T = TypeVar("T")
Decoding = Callable[[], np.ndarray]
# To draw the crops of a batch takes as long as to decode ten images, and of so many hardly longer.
_DRAWN_AT_ONCE = 1024
# Streamed images wait in memory meanwhile, so there are fewer of them if they are large.
_MOST_WAITING_BYTES = 2**25


def list_decodings(subject: Subject) -> Iterator[list[Decoding]]:
    """For batch after batch, without an end, what reads and decodes each of its images.

    A decoding raises a `UserError` if the record cannot be read or decoded: naming the record or,
    if there is no index, the shards.
    """
    index, verify = subject.records.index, subject.feeding.verify != "none"
    if index is None:
        batches = map(_list_images, stream_batches(subject, None))
        return _add_crops(subject, batches, _size_of, functools.partial(_decode_streamed, subject))
    records = StoredRecords(index)

    def decode_row(row: int, window: np.ndarray | None) -> np.ndarray:
        image = records.read_image(row, verify)
        try:
            return _decode(subject, image, window)
        except ValueError as error:
            raise records.bad_record(row, error) from error

    def size_of_row(row: int) -> tuple[int, int]:
        return index.height[row], index.width[row]

    return _add_crops(subject, draw_rows(subject, None), size_of_row, decode_row)


def _add_crops(
    subject: Subject,
    batches: Iterator[list[T]],
    size_of: Callable[[T], tuple[int, int]],
    decode: Callable[[T, np.ndarray | None], np.ndarray],
) -> Iterator[list[Decoding]]:
    """The decodings of batches, with crops that are drawn ahead, for several batches at once."""
    generator = np.random.default_rng(0)
    for some in _gather(batches):
        sizes = np.array([size_of(each) for batch in some for each in batch])
        windows = iter(_draw(subject, sizes, generator))
        for batch in some:
            own = itertools.islice(windows, len(batch))
            yield [functools.partial(decode, *each) for each in zip(batch, own, strict=True)]


def _gather(batches: Iterator[list[T]]) -> Iterator[list[list[T]]]:
    """Several batches at once, for which crops are drawn together."""
    some: list[list[T]] = []
    count = size_bytes = 0
    for batch in batches:
        some.append(batch)
        count += len(batch)
        size_bytes += sum(len(each.encoded) for each in batch if isinstance(each, StoredImage))
        if count >= _DRAWN_AT_ONCE or size_bytes >= _MOST_WAITING_BYTES:
            yield some
            some, count, size_bytes = [], 0, 0
    if some:
        yield some


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


def _decode_streamed(subject: Subject, image: StoredImage, window: np.ndarray | None) -> np.ndarray:
    try:
        return _decode(subject, image, window)
    except ValueError as error:
        raise UserError(
            f"A record of {', '.join(subject.patterns)} is damaged: {error}; run ingest again."
        ) from error


def _size_of(image: StoredImage) -> tuple[int, int]:
    return image.height, image.width


def _list_images(batch: np.ndarray) -> list[StoredImage]:
    parsed = parse.parse_batch(batch, parse.columns_to_parse(()))
    columns = [parsed[key].numpy() for key in IMAGE_KEYS]
    return [
        take_image(dict(zip(IMAGE_KEYS, values, strict=True)))
        for values in zip(*columns, strict=True)
    ]
