"""Three ways to feed CIFAR-10, from files of images to batches: the same recipe in each."""

import dataclasses
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy.ndimage
import tensorflow as tf

from image_pipeline import api
from image_pipeline.components.feeding.graph import read_class_names

AUTOTUNE = tf.data.AUTOTUNE
SIZE_PX, PAD_PX, CUTOUT_PX, DEGREES = 32, 4, 8, 5
# Of CIFAR-10's training images, from 0 to 255. This project finds them in its analysis.
MEAN = np.array([125.3, 123.0, 113.9], np.float32)
STD = np.array([63.0, 62.1, 66.7], np.float32)


@dataclasses.dataclass(frozen=True)
class Job:
    """What is to be fed.

    Attributes:
      images: has `train/<class>/<file>` and `test/<class>/<file>`.
      work: a folder for what a way writes.
      batch_size: images a batch; divides the number of images.
      seed: of order and draws.
      limit: the most images of a split; 0 for all.
    """

    images: pathlib.Path
    work: pathlib.Path
    batch_size: int
    seed: int
    limit: int

    @property
    def classes(self) -> list[str]:
        """The classes' names, sorted."""
        return sorted(path.name for path in (self.images / "train").iterdir())

    def list_files(self, split: str) -> list[tuple[str, int]]:
        """The files of a split, each with its class's place: as many of each class, if limited."""
        found = []
        each = self.limit // len(self.classes) if self.limit else None
        for number, name in enumerate(self.classes):
            paths = sorted((self.images / split / name).iterdir())[:each]
            found += [(str(path), number) for path in paths]
        return found

    def load(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """A split's images, uint8 [n, 32, 32, 3], and labels, plainly read."""
        paths, labels = zip(*self.list_files(split), strict=True)
        pixels = [tf.io.decode_image(tf.io.read_file(path), 3).numpy() for path in paths]
        return np.stack(pixels), np.array(labels, np.int64)


Read = Callable[[], Iterator[tuple[tf.Tensor, tf.Tensor]]]


@dataclasses.dataclass(frozen=True)
class Feed:
    """A way that is ready.

    Attributes:
      read: the batches of the next epoch.
      check: one epoch's paths (bytes, below the folder of images), labels and images.
      classes: the classes' names in the order of the labels' ids.
      once_s: seconds of what happens only once, however often is trained.
    """

    read: Read
    check: Callable[[], Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]]
    classes: Sequence[str]
    once_s: float = 0.0


def feed_as_in_threads(job: Job) -> Feed:
    """One image after the other, rotated by NumPy and SciPy; nothing is prepared ahead."""

    def rotate(image: np.ndarray) -> np.ndarray:
        degrees = (np.random.rand() - 0.5) * 2 * DEGREES
        return scipy.ndimage.rotate(image, degrees, reshape=False, order=1)

    def augment(path: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, ...]:
        image = _normalise(_crop_and_flip(_read_image(path)))
        rotated = tf.numpy_function(rotate, [image], tf.float32)
        return path, _cut_out(tf.ensure_shape(rotated, [SIZE_PX, SIZE_PX, 3])), label

    np.random.seed(job.seed)
    batches = _shuffle_names(job).map(augment).batch(job.batch_size)
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # which TensorFlow adds by itself
    return _make_feed(batches.with_options(options), job)


def feed_as_documented(job: Job) -> Feed:
    """As TensorFlow's guide says: parallel maps, decoded images cached, batches prefetched."""
    turn = tf.keras.layers.RandomRotation(DEGREES / 360, "constant", seed=job.seed)

    def decode(path: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return path, _read_image(path), label

    def augment(path: tf.Tensor, image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, ...]:
        turned = turn(_normalise(_crop_and_flip(image)))
        return path, _cut_out(turned), label

    paths, labels = map(list, zip(*job.list_files("train"), strict=True))
    names = tf.data.Dataset.from_tensor_slices((paths, tf.constant(labels, tf.int64)))
    decoded = names.map(decode, num_parallel_calls=AUTOTUNE).cache()
    shuffled = decoded.shuffle(len(paths), seed=job.seed)
    augmented = shuffled.map(augment, num_parallel_calls=AUTOTUNE)
    return _make_feed(augmented.batch(job.batch_size).prefetch(AUTOTUNE), job)


def feed_by_this_project(job: Job) -> Feed:
    """Ingest and analysis, once; then `input_fn`."""
    data_dir, graph_dir = str(job.work / "data"), str(job.work / "graph")
    images = _copy_files(job) if job.limit else job.images
    started = time.perf_counter()
    api.ingest(
        str(images),
        data_dir,
        label_pattern=r"[^/]+/(?P<label>[^/]+)/.+",
        split_pattern=r"(?P<split>[^/]+)/.+",
        split_names={"test": "eval"},
        duplicates="keep_all",
        conflicting_labels="keep",
        prepare={"encoding": "original", "resize": "none"},
    )
    view = {"height_px": SIZE_PX, "width_px": SIZE_PX, "crop_fraction": 1.0}
    api.analyze(data_dir, graph_dir, view=view)
    once_s = time.perf_counter() - started
    steps = [
        {"op": "pad_and_crop", "pad_px": PAD_PX},
        {"op": "flip_horizontal"},
        {"op": "rotate", "degrees": DEGREES},
        {"op": "cutout", "size_px": CUTOUT_PX},
    ]
    options = {"batch_size": job.batch_size, "augment": steps}

    def check() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        named = api.input_fn(
            data_dir, graph_dir=graph_dir, seed=job.seed, columns=["image/filename"], **options
        )
        for inputs, labels in named:
            yield inputs["image/filename"].numpy(), labels.numpy(), inputs["image"].numpy()

    # Iterated again, as by Keras's `fit`, it gives the next epoch.
    batches = api.input_fn(data_dir, graph_dir=graph_dir, seed=job.seed, **options)
    return Feed(lambda: iter(batches), check, read_class_names(graph_dir), once_s)


FEEDS = {
    "threads": feed_as_in_threads,
    "documented": feed_as_documented,
    "ours": feed_by_this_project,
}


def _copy_files(job: Job) -> pathlib.Path:
    """A folder of copies of the files that are used."""
    folder = job.work / "images"
    for split in ("train", "test"):
        for path, _ in job.list_files(split):
            copy = folder / pathlib.Path(path).relative_to(job.images)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(pathlib.Path(path).read_bytes())
    return folder


def _make_feed(batches: tf.data.Dataset, job: Job) -> Feed:
    """A feed of a data set that is iterated again for every epoch, as Keras's `fit` does."""
    shown = batches.map(lambda path, image, label: (image, label)).with_options(batches.options())

    def check() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for path, image, label in batches:
            below = [each.decode().removeprefix(f"{job.images}/").encode() for each in path.numpy()]
            yield np.array(below), label.numpy(), image.numpy()

    return Feed(lambda: iter(shown), check, job.classes)


def _shuffle_names(job: Job) -> tf.data.Dataset:
    paths, labels = map(list, zip(*job.list_files("train"), strict=True))
    names = tf.data.Dataset.from_tensor_slices((paths, tf.constant(labels, tf.int64)))
    return names.shuffle(len(paths), seed=job.seed)


def _read_image(path: tf.Tensor) -> tf.Tensor:
    image = tf.io.decode_image(tf.io.read_file(path), 3, expand_animations=False)
    return tf.ensure_shape(image, [SIZE_PX, SIZE_PX, 3])


def _crop_and_flip(image: tf.Tensor) -> tf.Tensor:
    padded = tf.pad(image, [[PAD_PX, PAD_PX], [PAD_PX, PAD_PX], [0, 0]], "REFLECT")
    cropped = tf.image.random_crop(padded, [SIZE_PX, SIZE_PX, 3])
    return tf.image.random_flip_left_right(cropped)


def _normalise(image: tf.Tensor) -> tf.Tensor:
    return (tf.cast(image, tf.float32) - MEAN) / STD


def _cut_out(image: tf.Tensor) -> tf.Tensor:
    """Blackens a square about a random place, as this project does; of a normalised image."""
    top, left = tf.unstack(tf.random.uniform([2], 0, SIZE_PX, tf.int32) - CUTOUT_PX // 2)
    rows, columns = tf.range(SIZE_PX)[:, None], tf.range(SIZE_PX)[None, :]
    in_rows = (rows >= top) & (rows < top + CUTOUT_PX)
    is_cut = in_rows & (columns >= left) & (columns < left + CUTOUT_PX)
    return tf.where(is_cut[..., None], -MEAN / STD, image)
