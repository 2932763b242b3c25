"""WebDataset: tar files, read in order by a process a core, shuffled in a buffer.

As https://github.com/webdataset/webdataset shows it: shards shuffled, a buffer of 1,000 records,
batches made in the workers of a `WebLoader`.
"""

from collections.abc import Iterator

import torch
import webdataset

from rivals import protocol
from rivals.torch_views import as_batch, decode_by_torchvision, make_transform

_SHUFFLED_RECORDS = 1_000


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Makes the loader; its workers start with the first epoch."""
    torch.set_num_threads(1)
    packed_dir = protocol.packed_dir(job.data_dir, "webdataset")
    shards = sorted(map(str, packed_dir.glob("*.tar")))
    transform, training = make_transform(job), job.task.training

    def make_example(sample: dict[str, bytes]) -> tuple[torch.Tensor, int]:
        return transform(decode_by_torchvision(sample["jpg"])), int(sample["cls"])

    data = webdataset.WebDataset(shards, shardshuffle=len(shards) if training else False)
    if training:
        data = data.shuffle(_SHUFFLED_RECORDS)
    batches = data.map(make_example).batched(job.batch_size, collation_fn=_join)
    loader = webdataset.WebLoader(
        batches, batch_size=None, num_workers=job.threads, persistent_workers=True
    )

    def read_epoch() -> Iterator[protocol.Batch]:
        for images, labels in loader:
            yield as_batch(images, labels)

    return read_epoch


def _join(examples: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = zip(*examples, strict=True)
    return torch.stack(images), torch.tensor(labels)


if __name__ == "__main__":
    protocol.serve(make_reader, protocol.JPEG_TASKS)
