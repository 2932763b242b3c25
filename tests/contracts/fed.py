"""Reads batches of the images of `kinds`, and tells whose they are."""

import numpy as np
import tensorflow as tf

from image_pipeline.components.feeding import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions
from tests.contracts.kinds import HEIGHT, WIDTH

VIEW = ViewOptions(height_px=HEIGHT, width_px=WIDTH)


def open_batches(folder, mode="train", split=None, files=None, graph=None, view=VIEW, **arguments):
    """All of a folder's `data` in evaluation, its train split in training; or other files."""
    names = set(arguments) & set(FeedingOptions.model_fields)
    options = {"batch_size": 4, "augment": []} | {name: arguments.pop(name) for name in names}
    split = split or ("train" if mode == "train" else "*")
    return input_fn.input_fn(
        files or [str(folder / f"data/Split-{split}/*")],
        view=view,
        feeding=FeedingOptions.model_validate(options),
        transform_graph_dir=graph and str(graph),
        mode=mode,
        **arguments,
    )


def unindexed(folder):
    """A folder whose `data` are the same shards and manifest, without an index."""
    data = folder / "unindexed" / "data"
    if not data.exists():
        data.mkdir(parents=True)
        for path in [*(folder / "data").glob("Split-*"), folder / "data/manifest.json"]:
            (data / path.name).symlink_to(path)
    return data.parent


def read(folder, mode="train", **arguments):
    return list(open_batches(folder, mode, **arguments).as_numpy_iterator())


def each(batches):
    """The images one by one, each with its label."""
    for images, labels in batches:
        images = images["image"] if isinstance(images, dict) else images
        for place, image in enumerate(images):
            yield image, tf.nest.map_structure(lambda values, at=place: values[at], labels)


def number_of(image):
    return round(float(image[..., 2].max())) // 10


def by_number(batches):
    """Image and label by the image's number, of batches that have each once."""
    pairs = [(number_of(image), (image, label)) for image, label in each(batches)]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def assert_same(found, wanted):
    tf.nest.assert_same_structure(found, wanted)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.dtype.kind, one.dtype.itemsize) == (other.dtype.kind, other.dtype.itemsize)
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, atol=1e-6)
        else:
            np.testing.assert_array_equal(one, other)


def check_follow(kind, batches):
    """Every label is where its image shows it; those that stay are those of the table."""
    for image, label in each(batches):
        kind.check(label, image[..., 0])
        if kind.moves is None:
            assert_same(label, kind.truth(number_of(image)))
