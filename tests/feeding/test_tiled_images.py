"""Batches of photos that ingest stores in tiles, beside the same ones decoded as a whole."""

import numpy as np
import pytest

from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views import fast_decode
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import write_photos
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam

PHOTOS = 24
VIEW = ViewOptions(height_px=48, width_px=48, crop_fraction=0.3)  # Of 160 px, a cut.


@pytest.fixture(scope="module")
def tiled(tmp_path_factory):
    """A data set of JPEGs, whose shorter side is 160 px."""
    root = tmp_path_factory.mktemp("tiled")
    images, prepare = write_photos(root / "images", PHOTOS), {"encoding": "jpeg", "size_px": 160}
    ingest(images, root / "data", prepare=prepare, splits={"train": 1.0})
    return sorted(map(str, (root / "data").glob("Split-train/*")))


def read(paths, mode, view, **feeding):
    options = {"batch_size": 8, "hold_decoded": False, "augment": ["random_resized_crop"]}
    batches = input_fn(
        paths,
        view=view,
        feeding=FeedingOptions.model_validate(options | feeding),
        transform_graph_dir=None,
        mode=mode,
        epochs=2 if mode == "train" else 1,
    )
    return [tuple(each.numpy() for each in batch) for batch in batches]


@pytest.mark.parametrize(
    ("mode", "view"),
    [("train", VIEW), ("eval", VIEW), ("eval", VIEW.model_copy(update={"crop_fraction": 0.5}))],
)
def test_batches_are_those_of_images_that_are_decoded_whole(
    tiled, cut_parts, monkeypatch, mode, view
):
    found = read(tiled, mode, view)
    used = sum(part is not None for part in cut_parts)
    monkeypatch.setattr(fast_decode, "_has_few_cores", lambda: False)
    expected = read(tiled, mode, view)
    assert len(found) == len(expected) == PHOTOS // 8 * (2 if mode == "train" else 1)
    for batch, other in zip(found, expected, strict=True):
        for values, others in zip(batch, other, strict=True):
            np.testing.assert_array_equal(values, others)
    # Resized views need all of an image.
    least = {0.3: PHOTOS // 2, 0.5: 0}[view.crop_fraction]
    assert used >= least and (least or not cut_parts)
