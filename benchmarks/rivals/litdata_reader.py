"""LitData: its chunks on this disk, read by a `StreamingDataLoader` with a process a core.

A `StreamingDataset` subclass that decodes and transforms, as https://github.com/Lightning-AI/litData
does for ImageNet.
"""

from collections.abc import Iterator

import torch
from litdata import StreamingDataLoader, StreamingDataset

from rivals import protocol
from rivals.torch_views import as_batch, decode_by_torchvision, make_transform


class Photos(StreamingDataset):
    """Decoded and transformed records."""

    def __init__(self, job: protocol.Job) -> None:
        """Opens the chunks where they lie."""
        folder = str(protocol.packed_dir(job.data_dir, "litdata"))
        super().__init__(input_dir=folder, shuffle=job.task.training, drop_last=False)
        self._transform = make_transform(job)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        """A view, float32 [3, size, size], and its class."""
        record = super().__getitem__(number)
        return self._transform(decode_by_torchvision(record["image"])), record["label"]


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Makes the loader; its workers start with the first epoch."""
    torch.set_num_threads(1)
    loader = StreamingDataLoader(
        Photos(job),
        batch_size=job.batch_size,
        num_workers=job.threads,
        persistent_workers=True,
    )

    def read_epoch() -> Iterator[protocol.Batch]:
        for images, labels in loader:
            yield as_batch(images, labels)

    return read_epoch


if __name__ == "__main__":
    protocol.serve(make_reader, protocol.JPEG_TASKS)
