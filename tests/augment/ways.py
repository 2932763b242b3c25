"""Runs a step of augmentation in every way that it may be run, and compares the results."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components.augment import keys
from image_pipeline.components.augment.batch import Batch

Step = Callable[[Batch, tf.Tensor, Any], Batch]

# Each step, with an option that is not its default.
EXAMPLES = [
    {"op": "random_resized_crop", "area": [0.2, 0.9]},
    {"op": "pad_and_crop", "pad_px": 2},
    {"op": "flip_horizontal", "probability": 0.25},
    {"op": "flip_vertical", "probability": 0.75},
    {"op": "rotate", "degrees": 30.0},
    {"op": "cutout", "size_px": 5},
    {"op": "random_erasing", "aspect": [0.5, 2.0]},
    {"op": "color_jitter", "hue": 0.1},
    {"op": "grayscale", "probability": 0.2},
    {"op": "gaussian_blur", "sigma_px": [0.5, 1.0]},
    {"op": "rand_augment", "magnitude": 5.0},
    {"op": "mixup", "alpha": 0.4},
    {"op": "cutmix", "alpha": 0.5},
]


def make_keys(count: int, seed: int = 0, epoch: int = 0) -> tf.Tensor:
    """Keys of the records 0, 1, 2, …: uint64 [count]."""
    ids = np.arange(count)
    return tf.constant(keys.record_keys(seed, epoch, ids, np.zeros_like(ids)))


def make_batch(
    count: int,
    height: int = 7,
    width: int = 5,
    channels: int = 3,
    with_masks: bool = False,
    boxes: Sequence[Any] | None = None,
    seed: int = 0,
) -> Batch:
    """Images of random pixels, with masks and boxes (the same for every image) if they are wanted.

    Args:
      count: images.
      height: of an image, in pixels.
      width: of an image, in pixels.
      channels: 1 or 3.
      with_masks: whether every image has a mask, of random class numbers.
      boxes: float [boxes, 4], or None.
      seed: other seeds, other pixels.
    """
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (count, height, width, channels), np.uint8)
    masks = generator.integers(0, 256, (count, height, width, 1), np.uint8)
    return Batch(
        images=tf.constant(images),
        masks=tf.constant(masks) if with_masks else None,
        boxes=None
        if boxes is None
        else tf.tile(tf.constant(boxes, tf.float32)[None], [count, 1, 1]),
    )


def run_in_all_ways(
    step: Step, batch: Batch, keys: tf.Tensor, options: Any, levels_apart: int = 0
) -> Batch:
    """Runs a step eagerly, in tf.data, in tf.function and by XLA, and checks that all agree.

    In tf.data the batch size is not static.

    Args:
      step: the step under test.
      batch: its batch.
      keys: uint64 [batch].
      options: its options.
      levels_apart: how many levels images may differ; all else must be the same bits.

    Returns:
      What the step gives eagerly, as NumPy arrays.
    """
    parts = {name: part for name, part in batch._asdict().items() if part is not None}

    def run(parts: dict[str, tf.Tensor], keys: tf.Tensor) -> dict[str, tf.Tensor]:
        stepped = step(Batch(**parts), keys, options)
        return {name: part for name, part in stepped._asdict().items() if part is not None}

    eager = run(parts, keys)
    function = tf.function(run)
    others = {
        "tf.data": _run_in_dataset(run, parts, keys),
        "tf.function": function(parts, keys),
        # Of the function, which has been traced.
        "XLA": tf.function(function, jit_compile=True)(parts, keys),
    }
    for way, other in others.items():
        _check_same(way, eager, other, levels_apart)
    return Batch(**{name: part.numpy() for name, part in eager.items()})


def _run_in_dataset(run: Callable, parts: dict[str, tf.Tensor], keys: tf.Tensor) -> dict:
    dataset = tf.data.Dataset.from_tensor_slices((parts, keys)).batch(len(keys)).map(run)
    assert dataset.element_spec["images"].shape[1:] == parts["images"].shape[1:]
    return next(iter(dataset))


def _check_same(way: str, eager: dict, other: dict, levels_apart: int) -> None:
    assert set(other) == set(eager), way
    for name, expected in eager.items():
        assert other[name].dtype == expected.dtype, f"{way}: {name}"
        assert other[name].shape == expected.shape, f"{way}: {name}"
        if name == "images" and levels_apart:
            apart = np.abs(other[name].numpy().astype(int) - expected.numpy().astype(int))
            assert apart.max() <= levels_apart, f"{way}: {name}, {apart.max()} levels apart"
        else:
            np.testing.assert_array_equal(other[name], expected, err_msg=f"{way}: {name}")
