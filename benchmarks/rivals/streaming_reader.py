"""MosaicML Streaming: MDS shards on this disk, a process a core.

A `StreamingDataset` subclass that decodes and transforms, in a DataLoader with workers that stay:
https://docs.mosaicml.com/projects/streaming/en/stable/getting_started/main_concepts.html.
"""

from collections.abc import Iterator

import torch
from streaming import StreamingDataset
from streaming.base.util import clean_stale_shared_memory
from torch.utils.data import DataLoader

from rivals import protocol
from rivals.torch_views import as_batch, decode_by_torchvision, make_transform


class Photos(StreamingDataset):
    """Decoded and transformed records."""

    def __init__(self, job: protocol.Job) -> None:
        """Opens the shards where they lie."""
        local = str(protocol.packed_dir(job.data_dir, "streaming") / "mds")
        super().__init__(local=local, shuffle=job.task.training, batch_size=job.batch_size)
        self._transform = make_transform(job)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        """A view, float32 [3, size, size], and its class."""
        record = super().__getitem__(number)
        return self._transform(decode_by_torchvision(record["image"])), record["label"]


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Makes the loader; its workers start with the first epoch."""
    torch.set_num_threads(1)
    clean_stale_shared_memory()
    loader = DataLoader(
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
