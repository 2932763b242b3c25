"""Random crops of JPEGs: whole images decoded, beside only what a crop needs.

    python benchmarks/partial_decode.py --images PHOTOS [--photos 120] [--repeats 5]

A random-resized crop covers 43 % of an image on average. libjpeg-turbo can leave out what lies
beside it (`jpeg_crop_scanline`, `jpeg_skip_scanlines`); of the packages that ship it, let other
threads run and reach these functions, TensorFlow is the only well-kept one. This measures its
`decode_and_crop_jpeg` beside simplejpeg's whole decoding, which `input_fn` uses: for original
photos, and for copies of 256 px. What an empty call costs is shown by a crop of 16 x 16 pixels in
the first corner. With 16 pixels more to each side, the crop has the very pixels of the whole image;
without, some of its edge differ (libjpeg smooths colours over the neighbours).

Above a crop nothing can be left out of the Huffman code, whose share an image decoded at an eighth
of its size shows: it has all of the code, and one pixel of each block. With this for all rows down
to the crop's last one, and the rest for the crop's area only, follows about what a decoder without
any cost of its own would take: the limit.
"""

import argparse
import dataclasses
import pathlib
import sys
import time
from collections.abc import Callable

import cv2
import numpy as np
import simplejpeg
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rivals import bare_loop

_MARGIN = 16


@dataclasses.dataclass(frozen=True)
class Crop:
    """A JPEG, and top, left, height and width of a crop of it."""

    encoded: bytes
    window: tuple[int, int, int, int]
    size: tuple[int, int]

    def widened(self) -> tuple[int, int, int, int]:
        """The crop with its margin, inside the image."""
        top, left, height, width = self.window
        first = max(0, top - _MARGIN), max(0, left - _MARGIN)
        last = (
            min(self.size[0], top + height + _MARGIN),
            min(self.size[1], left + width + _MARGIN),
        )
        return (*first, last[0] - first[0], last[1] - first[1])


def draw_crop(encoded: bytes, generator: np.random.Generator) -> Crop:
    """A random crop by torchvision's rule."""
    height, width = simplejpeg.decode_jpeg_header(encoded)[:2]
    whole = np.empty((height, width), np.uint8)
    crop = bare_loop.random_crop(whole, generator)
    place = crop.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return Crop(encoded, (*divmod(place, width), *crop.shape), (height, width))


def store_smaller(encoded: bytes) -> bytes:
    """A copy of 256 px, quality 90."""
    image = simplejpeg.decode_jpeg(encoded, "BGR")
    scale = 256 / min(image.shape[:2])
    size = [max(256, round(side * scale)) for side in image.shape[1::-1]]
    image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes()


def decode_whole(crop: Crop) -> np.ndarray:
    """As `input_fn` does."""
    top, left, height, width = crop.window
    image = simplejpeg.decode_jpeg(crop.encoded, "RGB")
    return image[top : top + height, left : left + width]


def decode_part(crop: Crop) -> np.ndarray:
    """The crop and its margin."""
    window = crop.widened()
    part = _decode_window(crop.encoded, window)
    top, left = (at - start for at, start in zip(crop.window[:2], window[:2], strict=True))
    return part[top : top + crop.window[2], left : left + crop.window[3]]


def decode_corner(crop: Crop) -> np.ndarray:
    """Next to nothing."""
    return _decode_window(crop.encoded, (0, 0, 16, 16))


def decode_coarse(crop: Crop) -> np.ndarray:
    """All of the code, and hardly a pixel: an eighth of each side."""
    return simplejpeg.decode_jpeg(crop.encoded, "RGB", min_height=1, min_width=1, min_factor=8)


def limit_share(crops: list[Crop], coarse: float) -> float:
    """Of whole decoding, what no decoder can leave out of crops.

    Args:
      crops: equally dear.
      coarse: the share of `decode_coarse`.
    """
    down = [(c.window[0] + c.window[2]) / c.size[0] for c in crops]
    area = [c.window[2] * c.window[3] / (c.size[0] * c.size[1]) for c in crops]
    return float(coarse * np.mean(down) + (1 - coarse) * np.mean(area))


def _decode_window(encoded: bytes, window: tuple[int, ...]) -> np.ndarray:
    decoded = tf.raw_ops.DecodeAndCropJpeg(
        contents=encoded, crop_window=window, channels=3, dct_method="INTEGER_ACCURATE"
    )
    return np.asarray(memoryview(decoded))


def measure_ms(decode: Callable[[Crop], np.ndarray], crops: list[Crop], repeats: int) -> float:
    """CPU milliseconds a crop, the least of the repetitions."""
    decode(crops[0])
    found = []
    for _ in range(repeats):
        started = time.process_time()
        for crop in crops:
            decode(crop)
        found.append((time.process_time() - started) / len(crops) * 1e3)
    return min(found)


def main() -> None:
    """Compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", required=True, type=pathlib.Path)
    parser.add_argument("--photos", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    paths = sorted(p for p in arguments.images.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    originals = [path.read_bytes() for path in paths[: arguments.photos]]
    print("CPU ms a crop   whole   part   next to nothing   coarse   limit   with other pixels")
    for name, files in (("originals", originals), ("256 px", map(store_smaller, originals))):
        generator = np.random.default_rng(0)
        crops = [draw_crop(file, generator) for file in files]
        other = sum(not np.array_equal(decode_part(c), decode_whole(c)) for c in crops)
        costs = [
            measure_ms(way, crops, arguments.repeats)
            for way in (decode_whole, decode_part, decode_corner, decode_coarse)
        ]
        whole, part, nothing, coarse = costs
        limit = whole * limit_share(crops, coarse / whole)
        print(
            f"  {name:<12}{whole:>7.3f}{part:>7.3f}{nothing:>18.3f}{coarse:>9.3f}{limit:>8.3f}"
            f"{other:>20}"
        )


if __name__ == "__main__":
    main()
