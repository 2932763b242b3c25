"""PyTorch's DataLoader with a process a core, over a map-style dataset of stored bytes.

The loader is set as https://docs.pytorch.org/docs/stable/data.html describes: workers that stay
from epoch to epoch, and one thread in each. The decoder is torchvision's or simplejpeg's.
"""

from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Dataset

from rivals import protocol
from rivals.torch_views import DECODERS, as_batch, make_transform


class StoredPhotos(Dataset):
    """A data set's records, by number."""

    def __init__(self, job: protocol.Job) -> None:
        """Maps the stored bytes."""
        self._records, self._payload = job.load_records(), job.map_payload()
        self._decode = DECODERS[job.decoder] if job.meta["format"] == "jpeg" else None
        self._transform = make_transform(job)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._records)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        """A view, float32 [3, size, size], and its class."""
        offset, length, height, width, label = self._records[number].tolist()
        stored = self._payload[offset : offset + length].tobytes()
        if self._decode is None:
            pixels = torch.frombuffer(bytearray(stored), dtype=torch.uint8)
            image = pixels.reshape(height, width, 3).permute(2, 0, 1)
        else:
            image = self._decode(stored)
        return self._transform(image), label


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Makes the loader; its workers start with the first epoch."""
    torch.set_num_threads(1)
    loader = DataLoader(
        StoredPhotos(job),
        batch_size=job.batch_size,
        shuffle=job.task.training,
        num_workers=job.threads,
        persistent_workers=True,
    )

    def read_epoch() -> Iterator[protocol.Batch]:
        for images, labels in loader:
            yield as_batch(images, labels)

    return read_epoch


if __name__ == "__main__":
    protocol.serve(make_reader, protocol.PHOTO_TASKS)
