"""What every reader must have read: from the stored bytes, by NumPy and OpenCV alone."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from rivals import bare_loop, protocol, views

# In standard deviations of a channel. A JPEG decoder's fast inverse DCT, TensorFlow's and FFCV's
# default, is 0.8 to 1.1 grey levels of about 65 off; ways of shrinking originals differ by less.
_VAL_TOLERANCE = 0.025
# Random views of different seeds. CIFAR's border may be a colour or a reflection.
_TRAIN_TOLERANCE, _CIFAR_TOLERANCE = 0.06, 0.12
_LEAST_DISTINCT = 0.98  # random views of small pictures may coincide, of one colour for instance


@dataclasses.dataclass(frozen=True)
class Reference:
    """What an epoch holds.

    Attributes:
      labels: records of each class, by class id.
      mean: of the normalised pixels, a value a channel.
      std: likewise.
      distinct: how many different views there are, at least and at most.
      tolerance: of means and standard deviations.
    """

    labels: list[int]
    mean: list[float]
    std: list[float]
    distinct: tuple[int, int]
    tolerance: float

    def list_faults(self, answer: dict[str, Any]) -> list[str]:
        """Compares a reader's answer to `check`; an empty list means that all is right."""
        faults = []
        if answer["labels"] != self.labels:
            faults.append(f"labels: {answer['images']} of {sum(self.labels)} images, or others")
        for name in ("mean", "std"):
            wanted = getattr(self, name)
            off = float(np.abs(np.subtract(answer[name], wanted)).max())
            if not off <= self.tolerance:
                faults.append(f"{name} is {off:.3f} off (tolerance {self.tolerance})")
        least, most = self.distinct
        if not least <= answer["distinct"] <= most:
            faults.append(f"{answer['distinct']} distinct views, not {least} to {most}")
        return faults


def make_reference(job: protocol.Job) -> Reference:
    """Reads the task's records once, one after another."""
    records = job.load_records()
    answer = protocol.check_epoch(lambda: _read_plainly(job))
    labels = np.bincount(records["label"]).tolist()
    if job.task.data == "cifar":
        tolerance = _CIFAR_TOLERANCE
    else:
        tolerance = _TRAIN_TOLERANCE if job.task.training else _VAL_TOLERANCE
    # Every random view is another one, and a photo has only one centre view.
    least = int(_LEAST_DISTINCT * len(records)) if job.task.training else answer["distinct"]
    most = len(records) if job.task.training else answer["distinct"]
    return Reference(labels, answer["mean"], answer["std"], (least, most), tolerance)


def _read_plainly(job: protocol.Job) -> Iterator[protocol.Batch]:
    """One image a batch, normalised in float64."""
    generator, payload, side = np.random.default_rng(1), job.map_payload(), job.task.size_px
    for entry in job.load_records():
        image = bare_loop.decode_record(entry, payload, job.meta["format"])
        if job.task.data == "cifar":
            view = _small_view(_normalise(image, job), generator)
        elif job.task.training:
            view = _normalise(views.random_view(image, (side, side), generator), job)
        else:
            view = _normalise(views.centre_view(image, (side, side)), job)
        yield view[None], np.array([entry["label"]])


def _normalise(image: np.ndarray, job: protocol.Job) -> np.ndarray:
    return (image - np.array(job.meta["mean"])) / job.meta["std"]


def _small_view(image: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Pads with the mean, crops, flips and cuts out: float64 [height, width, 3]."""
    side, pad, cut = len(image), protocol.CIFAR_PAD_PX, protocol.CIFAR_CUTOUT_PX
    padded = np.pad(image, ((pad, pad), (pad, pad), (0, 0)))
    top, left = generator.integers(2 * pad + 1, size=2)
    view = padded[top : top + side, left : left + side][:, :: generator.choice([-1, 1])].copy()
    top, left = generator.integers(side - cut + 1, size=2)
    view[top : top + cut, left : left + cut] = 0
    return view
