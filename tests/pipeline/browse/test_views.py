"""The very pixels of `input_fn`: through the page's pictures, decoded again."""

import io

import numpy as np
import pytest
from PIL import Image

from image_pipeline import input_fn
from image_pipeline.browse.catalogue import Catalogue
from image_pipeline.browse.query import Query
from image_pipeline.browse.views import draw_stored
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.preview.panels import scale_to_display
from tests.drawings import write_scenes
from tests.ingest_runs import ingest
from tests.pipeline.browse.browsed import VIEW

pytestmark = pytest.mark.beam

STEPS = [{"op": "random_resized_crop", "area": [0.3, 0.6]}, {"op": "color_jitter", "hue": 0.1}]
KEY = "image/filename"


def decode(picture):
    return np.asarray(Image.open(io.BytesIO(picture.content)))


def read_batches(data, mode, graph_dir=None, **options):
    """What `input_fn` gives: by path, the images of each epoch."""
    found = {}
    view = {"height_px": 8, "width_px": 8}
    for split in ("train", "eval"):
        chosen = {"view": view, "mode": mode, "batch_size": 100, "columns": (KEY,), **options}
        for inputs, _ in input_fn(str(data), split, graph_dir, **chosen):
            for name, image in zip(inputs[KEY].numpy(), inputs["image"].numpy(), strict=True):
                found.setdefault(name.decode(), []).append(image)
    return found


def list_stored(session):
    for number in session.catalogue.find(Query(state="stored")):
        yield int(number), session.catalogue.read(int(number))["source"]


def test_each_picture_has_the_pixels_of_input_fn(browsed, tmp_path):
    steps = f"feeding.augment={STEPS}"
    session = browsed.open(tmp_path, *VIEW, steps, epochs=2, seed=3)
    evals = read_batches(browsed.data, "eval")
    trained = read_batches(browsed.data, "train", augment=STEPS, seed=3, epochs=2)
    seen = 0
    for number, path in list(list_stored(session))[::5]:
        titles = [each["title"] for each in session.list_views(number, False)]
        assert titles == ["eval", "train, epoch 0", "train, epoch 1"]
        expected = [*evals[path], *trained[path]]
        for place, pixels in enumerate(expected):
            np.testing.assert_array_equal(decode(session.draw(number, str(place), False)), pixels)
            seen += 1
        assert not np.array_equal(*expected[1:])
    assert seen == 15


def test_the_models_input_is_that_of_the_graph(browsed, graph_dir, tmp_path):
    session = browsed.open(tmp_path, graph=graph_dir, epochs=1)
    fed = read_batches(browsed.data, "eval", graph_dir)
    number, path = next(list_stored(session))
    assert [each["title"] for each in session.list_views(number, False)][-1] == "model's input"
    expected = np.round(scale_to_display(fed[path][0]) * 255).astype(np.uint8)
    np.testing.assert_array_equal(decode(session.draw(number, "2", False)), expected)


def test_the_last_record_is_mixed_with_another_one(browsed, tmp_path):
    session = browsed.open(tmp_path, *VIEW, "feeding.augment=[cutmix]", epochs=6)
    captions = [each["captions"] for each in session.list_views(23, False)]
    assert any("×" in line for lines in captions for line in lines)


def test_masks_lie_over_the_pictures_only_where_they_are_asked_for(tmp_path):
    write_scenes(tmp_path / "scenes", 4)
    masks = {"images": "images/{key}.png", "masks": "masks/{key}.png"}
    ingest(tmp_path / "scenes", tmp_path / "data", masks=masks)
    catalogue = Catalogue(str(tmp_path / "data"), read_manifest(str(tmp_path / "data")))
    drawn = draw_stored(catalogue, 0)
    path = tmp_path / "scenes" / catalogue.read(0)["source"]
    plain = np.asarray(Image.open(path))
    assert drawn.shape == plain.shape
    np.testing.assert_array_equal(drawn[0], plain[0])  # Of no class.
    assert (drawn[1:] != plain[1:]).any(axis=-1).all()
