"""Whether a mirrored image still shows the same class, judged by the images themselves."""

import dataclasses
import math
import random
from collections.abc import Sequence

import cv2
import numpy as np

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.decode import decode_image
from image_pipeline.components.images.prepare import PrepareOptions
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import label_of
from image_pipeline.components.sources.reading import try_read
from image_pipeline.components.sources.references import ImageRef, Source

MOST_NAMES = 5000
"""Of so many images, drawn at random, the first of each class are looked at."""
_MOST = 600  # images looked at
_LEAST_OF_A_CLASS = 10
_SIDE_PX = 16
_PARTS = 5
_RIDGE = 0.1  # of the mean variance of a pixel
_LEAST_LOSS = 0.15  # of the accuracy, beyond what chance makes


@dataclasses.dataclass(frozen=True)
class Mirrored:
    """How a simple classifier does on images that it has not seen, and on their mirror images.

    Attributes:
      images: how many were looked at.
      accuracy: share of them that it knows.
      mirrored: the same of their mirror images.
      guessed: share of the most frequent class.
    """

    images: int
    accuracy: float
    mirrored: float
    guessed: float

    def say(self) -> str:
        """Why images are not mirrored."""
        return (
            f"mirrored images look like other classes (of {self.images:,}, a simple classifier "
            f"knows {self.accuracy:.0%}, mirrored {self.mirrored:.0%}, and guessing the most "
            f"frequent class {self.guessed:.0%}), so none is mirrored"
        )

    @property
    def changes_class(self) -> bool:
        """Whether it knows images, and takes their mirror images for others."""
        chance = 3 * math.sqrt(0.5 / self.images)  # three deviations of a difference, at most
        knows = self.accuracy - self.guessed > chance
        return knows and self.accuracy - self.mirrored > max(chance, _LEAST_LOSS)


def look_at_mirrored(
    source: Source, refs: Sequence[ImageRef], options: IngestOptions
) -> Mirrored | None:
    """Fits a linear classifier of gray thumbnails, and compares.

    Digits, letters and signs of one hand are known, and their mirror images are not; of things and
    scenes, either are known equally well.

    Args:
      source: of the images.
      refs: some of it; at most 600 are read, of each class as many.
      options: of ingest, which tell their classes.

    Returns:
      The comparison; None with fewer than two classes of ten images that can be read.
    """
    refs = random.Random(0).sample(refs, min(len(refs), MOST_NAMES))
    labels = [label_of(ref, options) or None for ref in refs]
    classes = {label for label in labels if label is not None}
    each = max(_LEAST_OF_A_CLASS, _MOST // max(1, len(classes)))
    chosen: dict[str, list[np.ndarray]] = {}
    for ref, label in zip(refs, labels, strict=True):
        if label is None or sum(map(len, chosen.values())) >= _MOST:
            continue
        own = chosen.setdefault(label, [])
        if len(own) < each and (seen := _see(source, ref)) is not None:
            own.append(seen)
    kept = [own for own in chosen.values() if len(own) >= _LEAST_OF_A_CLASS]
    if len(kept) < 2:
        return None
    images = np.concatenate([np.stack(own) for own in kept])
    truth = np.repeat(np.arange(len(kept)), list(map(len, kept)))
    known, known_mirrored = _count_known(images, truth)
    total = len(truth)
    return Mirrored(total, known / total, known_mirrored / total, max(map(len, kept)) / total)


def _see(source: Source, ref: ImageRef) -> np.ndarray | None:
    """An image's gray thumbnail, float [16, 16] of mean 0 and deviation 1; None if unreadable."""
    options = PrepareOptions(color="gray", resize="exact", size_px=_SIDE_PX)
    data = try_read(ref, source, options.max_file_bytes)
    if not isinstance(data, bytes):
        return None
    try:
        decoded = decode_image(data, options)
    except BadImage:
        return None
    pixels = decoded.pixels if decoded.pixels.ndim == 2 else decoded.pixels.mean(-1)
    small = cv2.resize(
        pixels.astype(np.float32), (_SIDE_PX, _SIDE_PX), interpolation=cv2.INTER_AREA
    )
    return (small - small.mean()) / max(float(small.std()), 1e-6)


def _count_known(images: np.ndarray, truth: np.ndarray) -> tuple[int, int]:
    """How many of the images a ridge regression of the others knows, and of their mirror images."""
    flat, mirrored = (each.reshape(len(images), -1) for each in (images, images[..., ::-1]))
    wanted = np.eye(truth.max() + 1)[truth]
    known = np.zeros(2, int)
    for part in range(_PARTS):
        held = np.arange(len(truth)) % _PARTS == part
        fitted, mean = flat[~held], wanted[~held].mean(0)
        ridge = _RIDGE * len(fitted) * np.eye(flat.shape[1])
        weights = np.linalg.solve(fitted.T @ fitted + ridge, fitted.T @ (wanted[~held] - mean))
        for number, seen in enumerate((flat, mirrored)):
            answers = (seen[held] @ weights + mean).argmax(1)
            known[number] += (answers == truth[held]).sum()
    return int(known[0]), int(known[1])
