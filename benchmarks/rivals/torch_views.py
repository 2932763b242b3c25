"""Views of stored JPEGs by torchvision's transforms, for all readers on PyTorch.

As torchvision's documentation advises for speed: transforms v2 on uint8 tensors, cast last
(https://docs.pytorch.org/vision/stable/transforms.html#performance-considerations).
"""

from collections.abc import Callable

import numpy as np
import simplejpeg
import torch
from torchvision.io import decode_jpeg
from torchvision.transforms import InterpolationMode, v2

from rivals import protocol

Decode = Callable[[bytes], torch.Tensor]


def decode_by_torchvision(stored: bytes) -> torch.Tensor:
    """uint8 [3, height, width]."""
    return decode_jpeg(torch.frombuffer(bytearray(stored), dtype=torch.uint8))


def decode_by_simplejpeg(stored: bytes) -> torch.Tensor:
    """uint8 [3, height, width], channels last in memory."""
    return torch.from_numpy(simplejpeg.decode_jpeg(stored, "RGB")).permute(2, 0, 1)


DECODERS: dict[str, Decode] = {
    "torchvision": decode_by_torchvision,
    "simplejpeg": decode_by_simplejpeg,
}


def make_transform(job: protocol.Job) -> Callable[[torch.Tensor], torch.Tensor]:
    """The task's view: uint8 [3, height, width] to float32 [3, size, size]."""
    size = job.task.size_px
    mean, std = (np.divide(job.meta[name], 255).tolist() for name in ("mean", "std"))
    if job.task.training:
        view = [
            v2.RandomResizedCrop(
                size, protocol.CROP_AREA, protocol.CROP_ASPECT, InterpolationMode.BILINEAR
            ),
            v2.RandomHorizontalFlip(),
        ]
    else:
        view = [v2.Resize(round(size / protocol.CENTRE_FRACTION)), v2.CenterCrop(size)]
    return v2.Compose([*view, v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)])


def as_batch(images: torch.Tensor, labels: torch.Tensor) -> protocol.Batch:
    """The same memory as NumPy: float32 [batch, height, width, 3] and int64 [batch]."""
    return images.permute(0, 2, 3, 1).numpy(), labels.numpy()
