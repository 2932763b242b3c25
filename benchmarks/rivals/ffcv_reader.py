"""FFCV, as its documentation and its ImageNet and CIFAR-10 examples use it, on the CPU.

The examples normalise on the GPU; here `NormalizeImage` does it in the same compiled pass, to
float32. The file is mapped (`os_cache=True`).
"""

from collections.abc import Iterator

import numpy as np
from ffcv.fields.basics import IntDecoder
from ffcv.fields.rgb_image import (
    CenterCropRGBImageDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from ffcv.loader import Loader, OrderOption
from ffcv.pipeline.operation import Operation
from ffcv.transforms import (
    Cutout,
    NormalizeImage,
    RandomHorizontalFlip,
    RandomTranslate,
    Squeeze,
    ToTensor,
)

from rivals import protocol


def make_reader(job: protocol.Job) -> protocol.ReadEpoch:
    """Makes the loader; it is compiled while the first epoch is read."""
    training = job.task.training
    loader = Loader(
        str(job.data_dir / "images.beton"),
        batch_size=job.batch_size,
        num_workers=job.threads,
        order=OrderOption.RANDOM if training else OrderOption.SEQUENTIAL,
        os_cache=True,
        drop_last=False,
        seed=0,
        pipelines={
            "image": list_operations(job),
            "label": [IntDecoder(), ToTensor(), Squeeze()],
        },
    )

    def read_epoch() -> Iterator[protocol.Batch]:
        for images, labels in loader:
            yield images.numpy(), labels.numpy()

    return read_epoch


def list_operations(job: protocol.Job) -> list[Operation]:
    """The image's pipeline, from the decoder on."""
    mean, std = np.array(job.meta["mean"]), np.array(job.meta["std"])
    size = (job.task.size_px, job.task.size_px)
    # Squares cut out or shifted in become the mean colour, as in FFCV's CIFAR-10 example.
    fill = tuple(round(level) for level in mean)
    operations: list[Operation]
    if job.name == "cifar":
        operations = [
            SimpleRGBImageDecoder(),
            RandomHorizontalFlip(),
            RandomTranslate(padding=protocol.CIFAR_PAD_PX, fill=fill),
            Cutout(protocol.CIFAR_CUTOUT_PX, fill),
        ]
    elif job.task.training:
        crop = RandomResizedCropRGBImageDecoder(size, protocol.CROP_AREA, protocol.CROP_ASPECT)
        operations = [crop, RandomHorizontalFlip()]
    else:
        operations = [CenterCropRGBImageDecoder(size, protocol.CENTRE_FRACTION)]
    return [*operations, NormalizeImage(mean, std, np.float32), ToTensor()]


if __name__ == "__main__":
    protocol.serve(make_reader, (*protocol.PHOTO_TASKS, "cifar"))
