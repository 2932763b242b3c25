"""What the pixels of a bounded sample are like: channels, brightness, sharpness."""

import dataclasses
from collections.abc import Sequence

import cv2
import numpy as np

from image_pipeline.components.ingest.groups import hash_gray
from image_pipeline.components.threads import map_in_order
from image_pipeline.report.charts import Channel, Histogram, make_histogram
from image_pipeline.report.data_set import DataSet
from image_pipeline.show.overlays import shrink

MOST_IMAGES = 2000
_EXTREMES = 6
# Of larger images, only some rows and columns are counted: that keeps the distribution of the
# pixels, which averaging would narrow.
_COUNTED_SIDE_PX = 512
# Sharpness depends on the scale, so all images are measured at no more than this.
_SHARPNESS_SIDE_PX = 256
_CHANNELS = {1: ("gray",), 3: ("red", "green", "blue")}
_LEAST_SHARPNESS = 0.01
_TINY_SIDE_PX = 8


@dataclasses.dataclass(frozen=True)
class ImageFigures:
    """The figures of one image.

    Attributes:
      histogram: int64 [channels, 256], how many of the counted pixels have each value.
      brightness: mean luma, 0 to 255.
      sharpness: variance of the Laplacian of the luma.
      tiny: uint8 [8, 8, 3], the image shrunk by area; of gray images, three equal channels.
      perceptual_hash: see `components.ingest.groups`.
    """

    row: int
    histogram: np.ndarray
    brightness: float
    sharpness: float
    tiny: np.ndarray
    perceptual_hash: int


@dataclasses.dataclass(frozen=True)
class Extreme:
    """An image that is extreme in something, with its value."""

    row: int
    value: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class PixelFigures:
    """The figures of a sample of the stored images.

    Attributes:
      undecodable: how many more could not be decoded.
      channels: gray, or red, green and blue.
      brightness, sharpness: their distributions; None without images.
      extremes: the "darkest", "brightest", "blurriest" and "sharpest", the most extreme first.
      is_scaled: whether all of this is of pictures of other values, see `show_values`.
    """

    images: int
    records: int
    undecodable: int
    channels: list[Channel]
    brightness: Histogram | None
    sharpness: Histogram | None
    extremes: dict[str, list[Extreme]]
    is_scaled: bool = False


def measure_images(data: DataSet, most: int = MOST_IMAGES) -> list[ImageFigures | None]:
    """The figures of a sample of the stored images; None for one that cannot be decoded."""

    def measure(row: int) -> ImageFigures | None:
        try:
            return measure_image(row, data.read_pixels(row))
        except ValueError:
            return None  # Counted as undecodable.

    rows = data.choose_rows(most).tolist()
    return list(map_in_order(measure, rows, data.threads, batch=8))


def describe_pixels(data: DataSet, measured: Sequence[ImageFigures | None]) -> PixelFigures:
    """Sums up what `measure_images` found."""
    found = [figures for figures in measured if figures is not None]
    zero = np.zeros((data.channels, 256), np.int64)
    channels = []
    for name, counts in zip(
        _CHANNELS[data.channels], sum((each.histogram for each in found), zero), strict=True
    ):
        total, values = max(int(counts.sum()), 1), np.arange(256)
        mean = float((counts * values).sum() / total)
        variance = float((counts * (values - mean) ** 2).sum() / total)
        channels.append(Channel(name, mean, variance**0.5, counts.tolist()))
    brightness = np.array([each.brightness for each in found])
    sharpness = np.array([each.sharpness for each in found])
    ordered = {
        "darkest": (brightness, np.argsort(brightness, kind="stable")),
        "brightest": (brightness, np.argsort(-brightness, kind="stable")),
        "blurriest": (sharpness, np.argsort(sharpness, kind="stable")),
        "sharpest": (sharpness, np.argsort(-sharpness, kind="stable")),
    }
    count = min(_EXTREMES, len(found) // 2)
    return PixelFigures(
        images=len(found),
        records=len(data.index),
        undecodable=len(measured) - len(found),
        channels=channels,
        brightness=make_histogram(brightness),
        # Images of one colour have a sharpness of 0, which has no logarithm.
        sharpness=make_histogram(np.maximum(sharpness, _LEAST_SHARPNESS), logarithmic=True),
        extremes={
            name: [Extreme(found[i].row, float(values[i])) for i in order[:count].tolist()]
            for name, (values, order) in ordered.items()
        },
        is_scaled=data.is_scaled,
    )


def measure_image(row: int, pixels: np.ndarray) -> ImageFigures:
    """Measures one image.

    Sharpness as in Pech-Pacheco et al., Diatom autofocusing in brightfield microscopy (ICPR 2000).

    Args:
      pixels: uint8 [height, width, channels].
    """
    step = -(-max(pixels.shape[:2]) // _COUNTED_SIDE_PX)
    counted = pixels[::step, ::step]
    luma = counted[..., 0] if counted.shape[2] == 1 else cv2.cvtColor(counted, cv2.COLOR_RGB2GRAY)
    small = shrink(pixels, _SHARPNESS_SIDE_PX)
    gray = small[..., 0] if small.shape[2] == 1 else cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)
    side = (_TINY_SIDE_PX, _TINY_SIDE_PX)
    tiny = cv2.resize(small, side, interpolation=cv2.INTER_AREA).reshape(*side, -1)
    return ImageFigures(
        row=row,
        histogram=np.stack(
            [np.bincount(counted[..., c].ravel(), minlength=256) for c in range(counted.shape[2])]
        ),
        brightness=float(luma.mean()),
        sharpness=float(cv2.Laplacian(gray, cv2.CV_64F).var()),
        tiny=np.broadcast_to(tiny, (*side, 3)),
        perceptual_hash=hash_gray(gray),
    )


def stack_tiny(measured: Sequence[ImageFigures]) -> np.ndarray:
    """The colours of images at 8 × 8 pixels, as vectors to compare: float32 [n, 192], 0 to 1."""
    return np.stack([each.tiny for each in measured]).reshape(len(measured), -1) / np.float32(255)
