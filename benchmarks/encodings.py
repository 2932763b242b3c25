"""What an image costs in each encoding that ingest stores: bytes, processor time, and pixels.

    python benchmarks/encodings.py --images FOLDER [--size 256] [--view 224] [--repeats 3]

FOLDER holds images, in any layout; it is ingested once for each encoding, into a temporary folder.
`original` keeps the files as they are, so also their size; the others have their shorter side
resized to --size. Processor times are of all threads together, for one image. Of ingest it is what
depends on the encoding: check, decode, resize and encode (`prepare_image`). Read are epochs of
training (random_resized_crop, flip_horizontal) and of evaluation (a centre crop of --view /
--size), in uint8 and without a transform graph; each image is decoded each time. Encodings take
turns, and the least of the rounds is printed: what else the machine does only adds to it. `pixels`
is the mean absolute difference of evaluation's views from those of `raw`, in grey levels. The last
two columns are of the same shards gzipped. Then the views are read at random from HDF5, as slices
of one array.
"""

import argparse
import contextlib
import functools
import glob
import os
import pathlib
import tempfile
import time
import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from image_pipeline.api import ingest, input_fn
from image_pipeline.components.images.prepare import BadImage, PrepareOptions, prepare_image

Sizes = tuple[int, int]  # of the stored shorter side and of the view, in pixels
# Columns, and digits behind the point.
DIGITS = {
    "bytes": 0,
    "ingest ms": 2,
    "train ms": 3,
    "eval ms": 3,
    "pixels": 2,
    "gzipped": 0,
    "gunzip ms": 3,
}
ENCODINGS = ("raw", "png", "jpeg", "original")
BATCH_SIZE, LEAST_BATCHES = 64, 60
INGEST: dict[str, Any] = {
    "label_pattern": None,
    "duplicates": "keep_all",
    "max_bad_fraction": 1,
    "splits": {"train": 1.0},
    "shards": 1,
}


def measure_cpu_s(work: Callable[[], Any]) -> float:
    """Processor seconds of all this process's threads."""
    started = time.process_time()
    work()
    return time.process_time() - started


def list_images(folder: str) -> list[str]:
    """All files below a folder, in a fixed order."""
    return sorted(filter(os.path.isfile, glob.glob(f"{folder}/**/*", recursive=True)))


def settle() -> float:
    """Waits until no batch is made ahead any more; gives the process's processor seconds."""
    before = -1.0
    while (now := time.process_time()) - before > 0.005:
        before = now
        time.sleep(0.25)
    return now


def make_prepare(encoding: str, size_px: int) -> dict[str, Any]:
    """The options `ingest.prepare` of an encoding."""
    if encoding == "original":
        return {"encoding": encoding, "resize": "none"}
    return {"encoding": encoding, "size_px": size_px}


class Encoded:
    """A data set in one encoding, and what was measured of it: columns of values."""

    def __init__(self, images: str, scratch: str, encoding: str, sizes_px: Sizes):
        """Ingests it."""
        size_px, view_px = sizes_px
        self._paths = list_images(images)
        self._prepare = PrepareOptions.model_validate(make_prepare(encoding, size_px))
        self._view = {"height_px": view_px, "width_px": view_px, "crop_fraction": view_px / size_px}
        self._data = f"{scratch}/{encoding}"
        self.count = ingest(images, self._data, prepare=self._prepare, **INGEST)["written"]
        self.columns: dict[str, list[float]] = {"ingest ms": [], "train ms": [], "eval ms": []}
        self._batches = {mode: iter(self._read(mode)) for mode in ("train", "eval")}
        for mode in self._batches:  # Compiles; from now on as many batches are ahead as at its end.
            self._read_epochs(mode)
        settle()

    def _read(self, mode: str) -> Any:
        """Batches of an epoch after the other, without end."""
        options: dict[str, Any] = {"batch_size": BATCH_SIZE, "hold_decoded": False}
        view = self._view
        return input_fn(self._data, "train", mode=mode, view=view, epochs=None, **options)

    def _read_epochs(self, mode: str) -> int:
        """Reads epochs until there have been enough batches; returns how many images."""
        images = 0
        while images < LEAST_BATCHES * BATCH_SIZE or images % self.count:
            images += len(next(self._batches[mode])[0])
        return images

    def measure_round(self) -> None:
        """Measures ingest, and some epochs of each kind."""
        cpu_s = measure_cpu_s(self._prepare_all)
        self.columns["ingest ms"].append(1e3 * cpu_s / len(self._paths))
        for mode, column in (("train", "train ms"), ("eval", "eval ms")):
            started = time.process_time()
            count = self._read_epochs(mode)
            self.columns[column].append(1e3 * (settle() - started) / count)

    def _prepare_all(self) -> None:
        for path in self._paths:
            with contextlib.suppress(BadImage):
                prepare_image(pathlib.Path(path).read_bytes(), self._prepare)

    def read_views(self) -> np.ndarray:
        """Evaluation's views, in stored order: uint8 [count, height, width, 3]."""
        batches = self._read("eval").take(-(-self.count // BATCH_SIZE)).as_numpy_iterator()
        return np.concatenate([images for images, _ in batches])

    def measure_gzip(self) -> None:
        """Measures the shard's bytes, and these gzipped (level 6, TFRecordWriter's)."""
        (path,) = glob.glob(f"{self._data}/Split-train/*")
        shard = pathlib.Path(path).read_bytes()
        zipped = zlib.compress(shard, 6)
        seconds = [measure_cpu_s(lambda: zlib.decompress(zipped)) for _ in range(3)]
        self.columns["bytes"] = [len(shard) / self.count]
        self.columns["gzipped"] = [len(zipped) / self.count]
        self.columns["gunzip ms"] = [1e3 * value / self.count for value in seconds]


def compare_views(views: np.ndarray, others: np.ndarray) -> float:
    """Mean absolute difference in grey levels, of two uint8 arrays of the same shape."""
    pairs = zip(views, others, strict=True)
    return float(np.mean([np.abs(one.astype(int) - other).mean() for one, other in pairs]))


def report(encoded: dict[str, Encoded]) -> None:
    """A line an encoding: the least of the rounds."""
    print(f"  {'':<10}" + "".join(f"{name:>11}" for name in DIGITS))
    for encoding, data in encoded.items():
        values = {name: min(data.columns[name]) for name in DIGITS}
        cells = (f"{values[name]:>11,.{digits}f}" for name, digits in DIGITS.items())
        print(f"  {encoding:<10}" + "".join(cells))


def report_hdf5(images: np.ndarray, folder: str) -> None:
    """Prints what an image costs that is read from an HDF5 array, by its place, in random order."""
    layouts: dict[str, dict[str, Any]] = {
        "contiguous": {},
        "chunks=True, gzip": {"chunks": True, "compression": "gzip"},
        "a chunk an image, gzip": {"chunks": (1, *images.shape[1:]), "compression": "gzip"},
    }
    order = np.random.default_rng(0).permutation(len(images))[:1024].tolist()
    print("  the views as one HDF5 array of uint8")
    for number, (name, layout) in enumerate(layouts.items()):
        path = f"{folder}/{number}.h5"
        with h5py.File(path, "w") as file:
            chunk = file.create_dataset("images", data=images, **layout).chunks
        cpu_ms = 1e3 * measure_cpu_s(functools.partial(read_slices, path, order)) / len(order)
        size = os.path.getsize(path) / len(images)
        print(f"    {name:<24}{size:>9,.0f} bytes{cpu_ms:>10.3f} ms   chunk {chunk}")


def read_slices(path: str, order: list[int]) -> None:
    """Reads an array's slices one by one."""
    with h5py.File(path) as file:
        images = file["images"]
        for place in order:
            images[place]


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", required=True)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--view", type=int, default=224)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    images, sizes_px = arguments.images, (arguments.size, arguments.view)
    with tempfile.TemporaryDirectory() as scratch:
        encoded = {name: Encoded(images, scratch, name, sizes_px) for name in ENCODINGS}
        for _ in range(arguments.repeats):
            for data in encoded.values():
                data.measure_round()
        views = encoded["raw"].read_views()
        for data in encoded.values():
            data.measure_gzip()
            data.columns["pixels"] = [compare_views(data.read_views(), views)]
        print(f"{len(views):,} images, {arguments.size} px, a view of {arguments.view} px")
        report(encoded)
        report_hdf5(views, scratch)


if __name__ == "__main__":
    main()
