"""Previews of images with boxes, tags or values show what training gets."""

import json

import numpy as np
import pytest

from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.preview.panels import make_panels
from image_pipeline.preview.samples import read_views
from image_pipeline.show.overlays import color_of
from tests.drawings import encode_png
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=128, width_px=128)
CROP = [{"op": "random_resized_crop", "area": [0.4, 0.9]}, "flip_horizontal"]
NAMES = ("ant", "bee")
COUNT = 6


def _write(folder, say, count=COUNT):
    folder.mkdir()
    rows = []
    for number in range(count):
        pixels = np.zeros((96, 128, 3), np.uint8)
        for (x, y, width, height), _ in _boxes_of(number):
            pixels[y : y + height, x : x + width] = 200
        pixels[..., 2] = number
        (folder / f"{number}.png").write_bytes(encode_png(pixels))
        rows.append({"path": f"{number}.png", "split": "train", **say(number)})
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ingest(folder / "t.jsonl", folder / "data", splits={"train": 1})
    return str(folder / "data" / "Split-train" / "*")


def _boxes_of(number):
    return [([10 + 40 * k, 8 * number, 30, 40], NAMES[k % 2]) for k in range(number % 3)]


def _say_boxes(number):
    crowd = [{"bbox": [0, 0, 9, 9], "category": "bee", "iscrowd": 1}] * (number == 4)
    return {"boxes": [{"bbox": b, "category": c} for b, c in _boxes_of(number)] + crowd}


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    return _write(tmp_path_factory.mktemp("boxes") / "images", _say_boxes)


def test_boxes_are_those_that_training_and_evaluation_get(pattern):
    feeding = FeedingOptions(batch_size=COUNT, augment=CROP, min_visible=0.5)
    found = read_views([pattern], VIEW, feeding, records=COUNT, epochs=2, seed=3)
    shown = {each.stored[0, 0, 2]: each for each in found}
    passes = [("eval", {}, 1), ("train", {"seed": 3, "epochs": 2}, 2)]
    for mode, options, epochs in passes:
        batches = list(
            input_fn(
                [pattern],
                view=VIEW,
                feeding=feeding,
                mode=mode,
                transform_graph_dir=None,
                **options,
            )
        )
        assert len(batches) == epochs
        for epoch, (images, labels) in enumerate(batches):
            for n in range(COUNT):
                views = shown[int(images[n].numpy()[..., 2].max())]
                own = views.boxes[1 + epoch + (mode == "train")]
                count = int(labels["count"][n])
                np.testing.assert_array_equal(own.places, labels["boxes"][n, :count])
                assert own.ids == tuple(labels["labels"][n, :count].numpy().tolist())
                assert own.names == tuple(NAMES[id_] for id_ in own.ids)
    # By which a page filters: of number 4, one box is around a crowd.
    assert [shown[n].names for n in (0, 1, 4)] == [(), ("ant",), ("ant", "bee")]


def test_the_stored_image_has_all_boxes_and_its_crowds(pattern):
    found = read_views([pattern], VIEW, FeedingOptions(augment=[]), records=COUNT, epochs=1)
    shown = {int(each.stored[0, 0, 2]): each for each in found}
    assert shown[5].boxes[0].names == ("ant", "bee")
    assert shown[4].boxes[0].names == ("ant", "bee (crowd)")
    assert (shown[4].label, shown[3].label) == ("ant, bee (crowd)", "no box")
    assert shown[4].boxes[1].names == ("ant",)
    top, left, bottom, right = shown[5].boxes[0].places[0].tolist()
    np.testing.assert_allclose([top * 96, left * 128, bottom * 96, right * 128], [40, 10, 80, 40])


def test_panels_draw_boxes_and_name_them_below(pattern):
    found = read_views([pattern], VIEW, FeedingOptions(augment=[]), records=COUNT, epochs=1)
    views = next(each for each in found if each.stored[0, 0, 2] == 5)
    stored, evaluated, trained = make_panels(views)
    assert stored.captions == ("128×96", "ant, bee") and trained.captions == ("ant, bee",)
    assert tuple(stored.pixels[60, 10]) == tuple(stored.pixels[79, 20]) == color_of(0)
    assert tuple(stored.pixels[60, 60]) != color_of(1) == tuple(stored.pixels[60, 79])
    empty = next(each for each in found if each.stored[0, 0, 2] == 0)
    assert make_panels(empty)[1].captions == ("128×128", "no box")
    np.testing.assert_array_equal(make_panels(empty)[1].pixels, empty.eval)
    assert evaluated.captions == ("128×128", "ant, bee")


def test_tags_and_values_name_images_and_what_is_mixed(tmp_path):
    feeding = FeedingOptions(augment=[{"op": "mixup", "alpha": 1.0}])
    tags = _write(tmp_path / "t", lambda n: {"tags": [["sky", "tree"], []][n]}, 2)
    found = read_views([tags], VIEW, feeding, records=2, epochs=1)
    assert {each.label: each.names for each in found} == {
        "sky, tree": ("sky", "tree"),
        "no tag": (),
    }
    assert all(each.shares[0].keys() == {"sky, tree", "no tag"} for each in found)
    values = _write(tmp_path / "v", lambda n: {"label": [0.25, 1234.5][n]}, 2)
    found = read_views([values], VIEW, feeding, records=2, epochs=1)
    assert {each.label: each.names for each in found} == {"0.25": (), "1,234.5": ()}
