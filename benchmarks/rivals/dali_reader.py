"""NVIDIA DALI without a GPU (`device_id=None`), as its ResNet-50 example uses it.

JPEG files only: what DALI reads of raw pixels are NumPy files, one an image.
"""

from collections.abc import Iterator

import numpy as np
from nvidia.dali import fn, pipeline_def, types

from rivals import protocol


@pipeline_def
def read_images(job: protocol.Job):
    """The graph: float32 [batch, height, width, 3] and int32 [batch, 1]."""
    records = job.load_records()
    encoded, labels = fn.readers.file(
        files=[str(job.data_dir / "files" / f"{number}.jpg") for number in range(len(records))],
        labels=records["label"].tolist(),
        random_shuffle=job.task.training,
        shuffle_after_epoch=False,
        initial_fill=1024,
        name="reader",
    )
    view = _random_view if job.task.training else _centre_view
    return view(job, encoded), labels


def _random_view(job: protocol.Job, encoded):
    cropped = fn.decoders.image_random_crop(
        encoded,
        random_area=list(protocol.CROP_AREA),
        random_aspect_ratio=list(protocol.CROP_ASPECT),
        num_attempts=10,
    )
    size = job.task.size_px
    resized = fn.resize(
        cropped, size=[size, size], interp_type=types.INTERP_LINEAR, antialias=False
    )
    return _normalise(job, resized, mirror=fn.random.coin_flip())


def _centre_view(job: protocol.Job, encoded):
    images = fn.decoders.image(encoded)
    if job.task.data == "originals":  # Stored images have that size already.
        shorter_px = job.task.size_px / protocol.CENTRE_FRACTION
        images = fn.resize(images, resize_shorter=shorter_px, interp_type=types.INTERP_LINEAR)
    return _normalise(job, images, mirror=0)


def _normalise(job: protocol.Job, images, mirror):
    return fn.crop_mirror_normalize(
        images,
        crop=(job.task.size_px, job.task.size_px),
        dtype=types.FLOAT,
        output_layout="HWC",
        mean=job.meta["mean"],
        std=job.meta["std"],
        mirror=mirror,
    )


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Builds the pipeline. It runs on through all epochs, whose size is a multiple of a batch."""
    pipeline = read_images(
        job, batch_size=job.batch_size, num_threads=job.threads, device_id=None, seed=1
    )
    pipeline.build()
    batches = pipeline.epoch_size("reader") // job.batch_size

    def read_epoch() -> Iterator[protocol.Batch]:
        for _ in range(batches):
            images, labels = pipeline.run()
            yield np.asarray(images.as_tensor()), np.asarray(labels.as_tensor())

    return read_epoch


if __name__ == "__main__":
    protocol.serve(make_reader, protocol.JPEG_TASKS)
