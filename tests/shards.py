"""Tiny data sets for tests: images of known pixels, written as ingest writes them."""

import hashlib
import io
import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from PIL import Image

from image_pipeline.components.dataset import record


def draw_image(number: int, height: int = 12, width: int = 16, channels: int = 3) -> np.ndarray:
    """A smooth gradient that differs for every number: uint8 [height, width, channels]."""
    rows, columns = np.mgrid[0:height, 0:width]
    planes = [rows * 7 + columns * 5 * (plane + 1) + number * 29 for plane in range(channels)]
    return (np.stack(planes, axis=-1) % 256).astype(np.uint8)


def encode_image(image: np.ndarray, image_format: str) -> bytes:
    """Encodes uint8 [height, width, channels] as jpeg, png, gif, bmp or raw."""
    if image_format == "raw":
        return image.tobytes()
    file = io.BytesIO()
    picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
    picture.save(file, image_format, **({"quality": 95} if image_format == "jpeg" else {}))
    return file.getvalue()


def make_example(
    image: np.ndarray, label: str = "cat", image_format: str = "png", name: str = "a.png"
) -> bytes:
    """One serialized record of the image; its id and file name come from `name`."""
    encoded = encode_image(image, image_format)
    height, width, channels = image.shape
    return record.encode_example(
        {
            record.FORMAT: image_format.encode(),
            record.HEIGHT: height,
            record.WIDTH: width,
            record.CHANNELS: channels,
            record.COLORSPACE: b"RGB" if channels == 3 else b"GRAY",
            record.FILENAME: name.encode(),
            record.SOURCE_ID: hashlib.sha256(name.encode()).hexdigest()[:32].encode(),
            record.SHA256: hashlib.sha256(encoded).hexdigest().encode(),
            record.LABEL: label.encode(),
            record.IMAGE: encoded,
        }
    )


def make_examples(
    count: int, labels: Sequence[str] = ("cat", "dog"), image_format: str = "png", **size: int
) -> list[bytes]:
    """Records numbered from 0, the labels in turn; record n shows `draw_image(n)`."""
    return [
        make_example(
            draw_image(number, **size), labels[number % len(labels)], image_format, f"{number}"
        )
        for number in range(count)
    ]


def write_shards(folder: pathlib.Path, examples: Sequence[bytes], shards: int = 1) -> str:
    """Deals the records to shards in turn, as files of a split.

    Returns:
      The pattern that matches the shards.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        path = folder / f"data_tfrecord-{shard:05d}-of-{shards:05d}"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for example in examples[shard::shards]:
                writer.write(example)
    return str(folder / "data_tfrecord-*")


def flip_bit(path: str, offset: int, bit: int = 0) -> None:
    """Damages a file: flips a bit of the byte at `offset`, by default the lowest."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))
