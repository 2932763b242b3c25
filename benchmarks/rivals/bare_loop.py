"""The limit: a loop over libraries' C code, and nothing around it.

Every thread takes a batch's next image: OpenCV (libjpeg-turbo inside) decodes the mapped bytes,
crops, resizes and flips, and its table look-up casts and normalises into the batch in one pass.
Of a JPEG in tiles, it decodes those that a random crop needs, as this project does.
"""

import concurrent.futures
import itertools
import threading
from collections.abc import Callable, Iterator

import cv2
import numpy as np

from image_pipeline.components.views.jpeg_tiles import cut_part
from rivals import protocol, views


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Makes the reader; its two batch buffers take turns."""
    cv2.setNumThreads(1)
    records, write_view = job.load_records(), make_view_writer(job)
    shape = (job.batch_size, job.task.size_px, job.task.size_px, 3)
    buffers = [np.empty(shape, np.float32) for _ in range(2)]
    pool = concurrent.futures.ThreadPoolExecutor(job.threads)
    generator = np.random.default_rng(0)

    def start(rows: np.ndarray, buffer: np.ndarray) -> list[concurrent.futures.Future]:
        parts = np.array_split(np.arange(len(rows)), job.threads)
        return [pool.submit(_write_part, write_view, rows, part, buffer) for part in parts]

    def read_epoch() -> Iterator[protocol.Batch]:
        count = len(records)
        order = generator.permutation(count) if job.task.training else np.arange(count)
        batches = np.split(order, range(job.batch_size, len(order), job.batch_size))
        started = start(batches[0], buffers[0])
        for number, rows in enumerate(batches):
            for done in started:
                done.result()  # Raises what went wrong in the thread.
            if number + 1 < len(batches):
                started = start(batches[number + 1], buffers[(number + 1) % 2])
            yield buffers[number % 2][: len(rows)], records["label"][rows]

    return read_epoch


def _write_part(
    write_view: Callable[[int, np.ndarray], None],
    rows: np.ndarray,
    part: np.ndarray,
    buffer: np.ndarray,
) -> None:
    for place in part:
        write_view(int(rows[place]), buffer[place])


def make_view_writer(job: protocol.Job) -> Callable[[int, np.ndarray], None]:
    """Makes the function that writes a record's view into float32 [height, width, 3]."""
    records, payload, size = job.load_records(), job.map_payload(), (job.task.size_px,) * 2
    levels = (np.arange(256)[:, None] - job.meta["mean"]) / job.meta["std"]
    table = levels.astype(np.float32).reshape(256, 1, 3)
    local, numbers = threading.local(), itertools.count()

    def write_view(row: int, target: np.ndarray) -> None:
        if job.task.training:
            if not hasattr(local, "generator"):  # Generators are not safe to share.
                local.generator = np.random.default_rng(next(numbers))
            crop = decode_crop(records[row], payload, job.meta["format"], local.generator)
            image = views.resize_and_flip(crop, size, local.generator)
        else:
            image = views.centre_view(
                decode_record(records[row], payload, job.meta["format"]), size
            )
        cv2.LUT(image, table, target)

    return write_view


def decode_record(entry: np.void, payload: np.ndarray, encoding: str) -> np.ndarray:
    """Decodes a record's stored bytes: uint8 [height, width, 3]."""
    offset, length, height, width, _ = entry.tolist()
    stored = payload[offset : offset + length]
    return stored.reshape(height, width, 3) if encoding == "raw" else _decode(stored)


def decode_crop(
    entry: np.void, payload: np.ndarray, encoding: str, generator: np.random.Generator
) -> np.ndarray:
    """Decodes a random crop of a record's image: uint8 [rows, columns, 3]."""
    offset, length, height, width, _ = entry.tolist()
    window = top, left, rows, columns = views.draw_crop(height, width, generator)
    part = None
    if encoding != "raw":
        part = cut_part(payload[offset : offset + length].data, (height, width), window)
    if part is None:
        image = decode_record(entry, payload, encoding)
    else:
        image = _decode(np.frombuffer(part.encoded, np.uint8))
        top, left = top - part.top, left - part.left
    return image[top : top + rows, left : left + columns]


def _decode(stored: np.ndarray) -> np.ndarray:
    image = cv2.imdecode(stored, cv2.IMREAD_COLOR_RGB)
    assert image is not None, "ingest has decoded every image before"
    return image


if __name__ == "__main__":
    protocol.serve(make_reader, protocol.PHOTO_TASKS)
