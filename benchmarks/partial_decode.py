"""Random crops of JPEGs: whole images decoded, beside only what a crop needs.

    python benchmarks/partial_decode.py --images PHOTOS [--photos 120] [--repeats 5]

A random-resized crop covers 43 % of an image on average. Ingest writes JPEGs in tiles, each of
which can be decoded by itself, and `input_fn` decodes those that a crop needs: "tiles" is what
that takes, "cutting" the part of it that joins them to a file, and "bytes" how much larger tiles
make a file. Photos of other origin seldom have tiles, as the originals show.

libjpeg-turbo can also leave out what lies beside a crop (`jpeg_crop_scanline`,
`jpeg_skip_scanlines`); of the packages that ship it, let other threads run and reach these
functions, TensorFlow is the only well-kept one: "part" is its `decode_and_crop_jpeg`, with 16
pixels more to each side, since libjpeg smooths colours over the neighbours. An empty call of it is
shown by a crop of 16 x 16 pixels in the first corner. Above a crop it has to read the Huffman code,
whose share an image decoded at an eighth of its size shows ("coarse"): it has all of the code, and
one pixel of each block. With this for all rows down to the crop's last one, and the rest for the
crop's area only, follows about what such a decoder would take without any cost of its own: its
limit.
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
from image_pipeline.components.images.prepare import encode
from image_pipeline.components.views.jpeg_tiles import cut_part
from rivals import views

_MARGIN = 16
# Copies by the length of their shorter side; none, or of all pixels.
_SIZES = {"originals": 0, "at their size": None, "384 px": 384, "256 px": 256}


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
    return Crop(encoded, views.draw_crop(height, width, generator), (height, width))


def store(encoded: bytes, side_px: int | None, *, in_tiles: bool) -> bytes:
    """A copy of quality 90, whose shorter side has `side_px` pixels; None for all."""
    image = simplejpeg.decode_jpeg(encoded, "RGB")
    scale = 1 if side_px is None else side_px / min(image.shape[:2])
    size = [max(side_px or 1, round(side * scale)) for side in image.shape[1::-1]]
    image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    if in_tiles:
        return encode(image, "jpeg", 90)
    bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    return cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes()


def decode_whole(crop: Crop) -> np.ndarray:
    """As `input_fn` does for files without tiles."""
    top, left, height, width = crop.window
    image = simplejpeg.decode_jpeg(crop.encoded, "RGB")
    return image[top : top + height, left : left + width]


def decode_tiles(crop: Crop) -> np.ndarray:
    """As `input_fn` does for files in tiles."""
    part = cut_part(crop.encoded, crop.size, crop.window)
    if part is None:
        return decode_whole(crop)
    image = simplejpeg.decode_jpeg(part.encoded, "RGB")
    top, left = crop.window[0] - part.top, crop.window[1] - part.left
    return image[top : top + crop.window[2], left : left + crop.window[3]]


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


def measure_ms(decode: Callable[[Crop], object], crops: list[Crop], repeats: int) -> float:
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
    names = ("whole", "tiles", "cutting", "part", "empty", "coarse", "limit", "bytes")
    print(f"{'CPU ms a crop':<22}" + "".join(f"{name:>9}" for name in names))
    for name, side_px in _SIZES.items():
        print(f"{name:<22}{compare(originals, side_px, arguments.repeats)}")


def compare(originals: list[bytes], side_px: int | None, repeats: int) -> str:
    """One line: of the originals (0), of copies at their size (None) or at a smaller one.

    Raises:
      AssertionError: if a way gives other pixels than the others.
    """
    files = tiled = originals
    if side_px != 0:
        files, tiled = (
            [store(file, side_px, in_tiles=in_tiles) for file in originals]
            for in_tiles in (False, True)
        )
    generator = np.random.default_rng(0)
    crops = [draw_crop(file, generator) for file in files]
    in_tiles = [
        dataclasses.replace(crop, encoded=file) for crop, file in zip(crops, tiled, strict=True)
    ]
    for crop, other in zip(crops, in_tiles, strict=True):
        expected = decode_whole(crop)
        assert np.array_equal(decode_tiles(other), expected)
        assert np.array_equal(decode_part(crop), expected)
    whole, part, nothing, coarse = (
        measure_ms(way, crops, repeats)
        for way in (decode_whole, decode_part, decode_corner, decode_coarse)
    )
    tiles = measure_ms(decode_tiles, in_tiles, repeats)
    cutting = measure_ms(lambda c: cut_part(c.encoded, c.size, c.window), in_tiles, repeats)
    limit = whole * limit_share(crops, coarse / whole)
    more = sum(map(len, tiled)) / sum(map(len, files)) - 1
    costs = (whole, tiles, cutting, part, nothing, coarse, limit)
    return "".join(f"{cost:>9.3f}" for cost in costs) + f"{more:>9.1%}"


if __name__ == "__main__":
    main()
