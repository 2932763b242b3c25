"""SPDL: FFmpeg decodes, crops and resizes in threads, inside one process.

A pipeline of source, decoding with as many tasks as threads, batches and one conversion a batch, as
https://facebookresearch.github.io/spdl/latest/getting_started/pytorch.html builds it; the random
crop and flip are part of FFmpeg's filter. Pixels are normalised by one table look-up a batch.
"""

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import spdl.io
from spdl.pipeline import PipelineBuilder

from rivals import protocol, views

_QUEUED_BATCHES = 2


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Makes the reader; every epoch builds a pipeline again, as SPDL's DataLoader does."""
    records, payload = job.load_records(), job.map_payload()
    generator = np.random.default_rng(0)
    levels = (np.arange(256)[:, None] - job.meta["mean"]) / job.meta["std"]
    table = levels.astype(np.float32).reshape(256, 1, 3)

    def decode(plan: tuple[int, str]) -> tuple[Any, int]:
        offset, length, _, _, label = records[plan[0]].tolist()
        packets = spdl.io.demux_image(payload[offset : offset + length].tobytes())
        return spdl.io.decode_packets(packets, filter_desc=plan[1]), label

    def join(examples: list[tuple[Any, int]]) -> protocol.Batch:
        frames, labels = zip(*examples, strict=True)
        images = spdl.io.to_numpy(spdl.io.convert_frames(list(frames)))
        flat = images.reshape(len(images), -1, 3)
        return cv2.LUT(flat, table).reshape(images.shape), np.array(labels)

    def read_epoch() -> Iterator[protocol.Batch]:
        plans = _plan_epoch(job, records, generator)
        pipeline = (
            PipelineBuilder()
            .add_source(plans)
            .pipe(decode, concurrency=job.threads)
            .aggregate(job.batch_size)
            .pipe(join)
            .add_sink(_QUEUED_BATCHES)
            .build(num_threads=job.threads)
        )
        with pipeline.auto_stop():
            yield from pipeline

    return read_epoch


def _plan_epoch(
    job: protocol.Job, records: np.ndarray, generator: np.random.Generator
) -> Iterator[tuple[int, str]]:
    """Every record's number and FFmpeg filter."""
    count, size = len(records), job.task.size_px
    order = generator.permutation(count) if job.task.training else np.arange(count)
    for number in order.tolist():
        height, width = records[number]["height"], records[number]["width"]
        flip = ""
        if job.task.training:
            top, left, rows, columns = views.draw_crop(height, width, generator)
            flip = ",hflip" if generator.random() < 0.5 else ""
        else:
            rows = columns = round(protocol.CENTRE_FRACTION * min(height, width))
            top, left = (height - rows) // 2, (width - columns) // 2
        # Chroma is doubled first: FFmpeg would else round a crop to whole chroma samples.
        crop = f"format=rgb24,crop={columns}:{rows}:{left}:{top}"
        yield number, f"{crop},scale={size}:{size}:flags=bilinear{flip},format=rgb24"


if __name__ == "__main__":
    protocol.serve(make_reader, protocol.JPEG_TASKS)
