"""Grain over ArrayRecord files, with as many reading threads as there are cores.

https://google-grain.readthedocs.io/en/latest/tutorials/dataset_basic_tutorial.html: a shuffled
`MapDataset` with a seed a record, batched, read ahead by threads (what it calls releases the GIL).
Grain decodes nothing itself; OpenCV does, as in the bare loop.
"""

from collections.abc import Iterator

import cv2
import grain
import numpy as np

from rivals import protocol, views

_LABEL_BYTES = 4


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Makes the dataset; every epoch has a seed of its own."""
    cv2.setNumThreads(1)
    packed_dir = protocol.packed_dir(job.data_dir, "array_record")
    source = grain.sources.ArrayRecordDataSource(
        sorted(map(str, packed_dir.glob("*.array_record")))
    )
    options = grain.ReadOptions(num_threads=job.threads, prefetch_buffer_size=job.batch_size)
    levels = (np.arange(256)[:, None] - job.meta["mean"]) / job.meta["std"]
    table = levels.astype(np.float32).reshape(256, 1, 3)
    size = (job.task.size_px, job.task.size_px)

    def make_example(record: bytes, generator: np.random.Generator) -> protocol.Batch:
        image = cv2.imdecode(
            np.frombuffer(record, np.uint8, offset=_LABEL_BYTES), cv2.IMREAD_COLOR_RGB
        )
        if job.task.training:
            view = views.random_view(image, size, generator)
        else:
            view = views.centre_view(image, size)
        return cv2.LUT(view, table), np.int64(int.from_bytes(record[:_LABEL_BYTES], "little"))

    def read_epochs() -> Iterator[grain.IterDataset]:
        for seed in range(2**31):
            data = grain.MapDataset.source(source).seed(seed)
            if job.task.training:
                data = data.shuffle()
            yield data.random_map(make_example).to_iter_dataset(options).batch(job.batch_size)

    epochs = read_epochs()

    def read_epoch() -> Iterator[protocol.Batch]:
        yield from next(epochs)

    return read_epoch


if __name__ == "__main__":
    protocol.serve(make_reader, protocol.JPEG_TASKS)
