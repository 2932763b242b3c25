"""Reads all records of a split by one framework; prints a digest, or the speed, as JSON.

Run by the Python of the framework's environment, which may have nothing of the others.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

KEYS = ["image/class/label", "image/filename"]
_PASSES, _LEAST = 3, 4000  # of reading, and records that one has at least


def digest(found: Iterable[tuple[bytes, int, bytes]]) -> dict[str, Any]:
    """The number of records, and SHA-256 over their names, classes and images, in that order."""
    lines = sorted(
        f"{name!r} {label} {hashlib.sha256(image).hexdigest()}" for name, label, image in found
    )
    return {"records": len(lines), "digest": hashlib.sha256("\n".join(lines).encode()).hexdigest()}


def _open(data_dir: str, **options: Any) -> Any:
    from image_pipeline.api import random_access

    assert "tensorflow" not in sys.modules
    return random_access(data_dir, "train", **options)


def by_numpy(data_dir: str) -> dict[str, Any]:
    """`random_access` itself."""
    records = _open(data_dir, columns=KEYS)
    return digest((r["image/filename"], r["label"], r["image"].tobytes()) for r in records)


def by_torch(data_dir: str, start: str) -> dict[str, Any]:
    """PyTorch's DataLoader with two processes."""
    import torch

    records = _open(data_dir, columns=KEYS)
    loader = torch.utils.data.DataLoader(
        records,
        batch_size=16,
        shuffle=True,
        num_workers=2,
        multiprocessing_context=start,
        collate_fn=list,
    )
    items = [item for batch in loader for item in batch]
    return digest((r["image/filename"], r["label"], r["image"].tobytes()) for r in items)


def by_grain(data_dir: str) -> dict[str, Any]:
    """Grain, shuffled, with threads of its own."""
    import grain

    source = grain.MapDataset.source(_open(data_dir, columns=KEYS)).seed(1).shuffle()
    items = list(source.to_iter_dataset())
    return digest((r["image/filename"], r["label"], r["image"].tobytes()) for r in items)


def by_tfds(data_dir: str) -> dict[str, Any]:
    """TFDS, which decodes by TensorFlow's default inverse DCT: so the bytes as they are stored."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(data_dir)
    decoders = {"image/encoded": tfds.decode.SkipDecoding()}
    data = builder.as_dataset("train", decoders=decoders, shuffle_files=True)
    return digest(
        (r["image/filename"], int(r["image/class/label"]), _pixels(tf, r["image/encoded"]))
        for r in data.as_numpy_iterator()
    )


def by_garden(data_dir: str) -> dict[str, Any]:
    """The Model Garden's decoder; names by a parser beside it, since it passes them over."""
    import tensorflow as tf
    from official.vision.dataloaders import classification_input

    name = {"image/filename": tf.io.FixedLenFeature([], tf.string)}
    decoder = classification_input.Decoder()
    shards = tf.io.gfile.glob(f"{data_dir}/Split-train/*")
    data = tf.data.TFRecordDataset(shards).map(
        lambda record: decoder.decode(record) | tf.io.parse_single_example(record, name)
    )
    return digest(
        (r["image/filename"], int(r["image/class/label"]), _pixels(tf, r["image/encoded"]))
        for r in data.as_numpy_iterator()
    )


def _pixels(tf: Any, encoded: bytes) -> bytes:
    return tf.io.decode_jpeg(encoded, dct_method="INTEGER_ACCURATE").numpy().tobytes()


def time_passes(read: Callable[[], Iterable[int]]) -> dict[str, Any]:
    """Records a second and CPU seconds of the best pass; `read` gives what each record has."""
    best: dict[str, Any] = {"rate": 0.0}
    for _ in range(_PASSES):
        cpu, started = time.process_time(), time.perf_counter()
        sizes = list(read())
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        if len(sizes) / seconds > best["rate"]:
            best = {"rate": len(sizes) / seconds, "cpu_s_per_1000": 1e3 * cpu / len(sizes)}
            best |= {"mean_bytes": sum(sizes) / len(sizes)}
    return best


def time_random_access(data_dir: str, decode: str) -> dict[str, Any]:
    """In an order as after a shuffle."""
    import numpy as np

    records = _open(data_dir, decode=decode)
    times = range(-(-_LEAST // len(records)))
    generator = np.random.default_rng(0)
    order = np.concatenate([generator.permutation(len(records)) for _ in times]).tolist()
    return time_passes(lambda: (len(records[number]["image"]) for number in order))


def time_torch(data_dir: str) -> dict[str, Any]:
    """With two processes that stay; items are not joined, since images have different sizes."""
    import torch

    records = _open(data_dir)
    loader = torch.utils.data.DataLoader(
        records,
        batch_size=32,
        sampler=torch.utils.data.RandomSampler(records, replacement=True, num_samples=_LEAST),
        num_workers=2,
        collate_fn=list,
        persistent_workers=True,
    )
    timed = time_passes(lambda: (len(item["image"]) for batch in loader for item in batch))
    return timed | {"cpu_s_per_1000": None}  # That of processes that live on is unknown.


def time_tf(data_dir: str, is_decoded: bool) -> dict[str, Any]:
    """TensorFlow's own reader of TFRecords."""
    import tensorflow as tf

    features = {"image/encoded": tf.io.FixedLenFeature([], tf.string)}

    def decode(record: tf.Tensor) -> tf.Tensor:
        encoded = tf.io.parse_single_example(record, features)["image/encoded"]
        return tf.shape(tf.io.decode_jpeg(encoded, 3, dct_method="INTEGER_ACCURATE"))[0]

    shards = tf.io.gfile.glob(f"{data_dir}/Split-train/*")
    data = tf.data.TFRecordDataset(shards).repeat().take(_LEAST)
    autotune = tf.data.AUTOTUNE
    data = data.map(decode, autotune) if is_decoded else data.map(tf.strings.length)
    return time_passes(lambda: (int(size) for size in data.prefetch(16).as_numpy_iterator()))


HOW: dict[str, Callable[[str], dict[str, Any]]] = {
    "numpy": by_numpy,
    "torch-fork": lambda data_dir: by_torch(data_dir, "fork"),
    "torch-spawn": lambda data_dir: by_torch(data_dir, "spawn"),
    "grain": by_grain,
    "tfds": by_tfds,
    "garden": by_garden,
    "speed-stored": lambda data_dir: time_random_access(data_dir, "none"),
    "speed-pixels": lambda data_dir: time_random_access(data_dir, "pixels"),
    "speed-torch": time_torch,
    "speed-tf-stored": lambda data_dir: time_tf(data_dir, is_decoded=False),
    "speed-tf-pixels": lambda data_dir: time_tf(data_dir, is_decoded=True),
}


if __name__ == "__main__":
    print(json.dumps(HOW[sys.argv[1]](sys.argv[2])))
