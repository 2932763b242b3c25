"""Boxes in batches: read in every way, moved with their images, dropped and padded."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import input_fn
from image_pipeline.components.feeding.boxes import finish_boxes
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions
from tests import graphs
from tests.drawings import encode_png
from tests.feeding.test_service import address  # noqa: F401
from tests.ingest_runs import ingest
from tests.shards import flip_bit

pytestmark = pytest.mark.beam

HEIGHT, WIDTH, COUNT = 24, 30, 24
VIEW = ViewOptions(height_px=HEIGHT, width_px=WIDTH)
# A class's level of red; its background is 0. Blue tells the number of the image.
LEVELS = (90, 160, 230)
CLASSES = ("ant", "bee", "cat")
CROP = {"op": "random_resized_crop", "area": [0.3, 0.9]}


def boxes_of(number):
    """Boxes that do not overlap, one a third of the image: (left, top, width, height), class."""
    random = np.random.default_rng(number)
    for place in range(number % 4):
        left, top = place * 10 + int(random.integers(0, 4)), int(random.integers(0, 12))
        width, height = random.integers(4, 7, 2).tolist()
        yield (left, top, width, height), (number + place) % 3


def draw_image(number):
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    image[..., 2] = number * 10
    for (left, top, width, height), class_ in boxes_of(number):
        image[top : top + height, left : left + width, 0] = LEVELS[class_]
    return image


def make_row(number):
    boxes = [{"bbox": box, "category": CLASSES[class_]} for box, class_ in boxes_of(number)]
    if number == 5:  # A crowd is stored, but not fed.
        boxes.append({"bbox": [0, 18, 30, 6], "category": "cat", "iscrowd": 1})
    return {"path": f"{number:02d}.png", "boxes": boxes, "kind": number % 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxed")
    for number in range(COUNT):
        (folder / f"{number:02d}.png").write_bytes(encode_png(draw_image(number)))
    rows = "\n".join(json.dumps(make_row(number)) for number in range(COUNT))
    (folder / "images.jsonl").write_text(rows)
    ingest(folder / "images.jsonl", folder / "data", prepare={"encoding": "png"})
    return folder


@pytest.fixture(scope="module")
def paths(folder):
    return str(folder / "data" / "Split-train" / "*")


def open_batches(paths, mode="train", view=VIEW, graph=None, **arguments):
    names = set(arguments) & set(FeedingOptions.model_fields)
    options = {"batch_size": 4, "augment": []} | {name: arguments.pop(name) for name in names}
    return input_fn.input_fn(
        [paths] if isinstance(paths, str) else paths,
        view=view,
        feeding=FeedingOptions.model_validate(options),
        transform_graph_dir=graph,
        mode=mode,
        **arguments,
    )


def read(paths, *arguments, **named):
    return list(open_batches(paths, *arguments, **named).as_numpy_iterator())


def number_of(image):
    return int(image[..., 2].max()) // 10


def check_labels(labels, most=3):
    count = len(labels["count"])
    assert labels["boxes"].shape == (count, most, 4) and labels["boxes"].dtype == np.float32
    assert labels["labels"].shape == (count, most) and labels["labels"].dtype == np.int32
    assert labels["count"].dtype == np.int32
    is_real = np.arange(most) < labels["count"][:, None]
    assert (labels["labels"][~is_real] == -1).all() and (labels["labels"][is_real] >= 0).all()
    assert not labels["boxes"][~is_real].any()
    tops_lefts, bottoms_rights = labels["boxes"][is_real][:, :2], labels["boxes"][is_real][:, 2:]
    assert (tops_lefts < bottoms_rights).all()


def check_follow(batches, atol=1.01):
    """Each box is around the pixels of its class; returns how many boxes there were."""
    total = 0
    for images, labels in batches:
        check_labels(labels)
        height, width = images.shape[1:3]
        for image, boxes, classes, count in zip(
            images, labels["boxes"], labels["labels"], labels["count"], strict=True
        ):
            for box, class_ in zip(boxes[:count], classes[:count], strict=True):
                top, left, bottom, right = box * [height, width, height, width]
                middle = image[int((top + bottom) / 2), int((left + right) / 2), 0]
                assert abs(int(middle) - LEVELS[class_]) < 30
                rows = np.nonzero(image[:, int((left + right) / 2), 0] > 60)[0]
                assert abs(rows.min() - top) <= atol and abs(rows.max() + 1 - bottom) <= atol
                total += 1
    return total


@pytest.mark.parametrize("source", ["indexed", "streaming"])
def test_evaluation_gives_the_very_boxes(paths, source):
    seen = []
    for split in ("train", "eval"):
        for images, labels in read(paths.replace("train", split), "eval", source=source):
            check_labels(labels)
            for place, image in enumerate(images):
                number, count = number_of(image), labels["count"][place]
                wanted = list(boxes_of(number))
                assert count == len(wanted)
                assert labels["labels"][place, :count].tolist() == [c for _, c in wanted]
                sides = [
                    [y / HEIGHT, x / WIDTH, (y + h) / HEIGHT, (x + w) / WIDTH]
                    for (x, y, w, h), _ in wanted
                ]
                np.testing.assert_allclose(
                    labels["boxes"][place, :count], np.reshape(sides, (-1, 4)), atol=1e-6
                )
                seen.append(number)
    assert sorted(seen) == list(range(COUNT))


@pytest.mark.parametrize("source", ["indexed", "streaming"])
@pytest.mark.parametrize(
    "augment",
    [
        [],
        ["flip_horizontal", "flip_vertical"],
        [CROP, "flip_horizontal"],
        [{"op": "pad_and_crop", "pad_px": 5, "mode": "constant"}],
    ],
)
def test_boxes_follow_their_images(paths, source, augment):
    view = ViewOptions(height_px=48, width_px=60)
    batches = read(paths, source=source, augment=augment, view=view, min_visible=0.5, epochs=2)
    assert check_follow(batches, atol=2.01) > 20


@pytest.mark.parametrize(("size", "fraction"), [((24, 24), 1), ((12, 30), 1), ((24, 30), 0.8)])
def test_boxes_follow_the_centre_view(paths, size, fraction):
    view = ViewOptions(height_px=size[0], width_px=size[1], crop_fraction=fraction)
    batches = read(paths, "eval", view=view, min_visible=0.4)
    assert check_follow(batches, atol=1.5) > 5
    indexed, streamed = batches, read(paths, "eval", view=view, min_visible=0.4, source="streaming")
    assert_same(indexed, streamed, in_order=False)


def by_number(batches):
    return {
        number_of(image): {key: values[place] for key, values in labels.items()}
        for images, labels in batches
        for place, image in enumerate(images)
    }


def assert_same(first, second, in_order=True):
    if in_order:
        for (images, labels), (others, other_labels) in zip(first, second, strict=True):
            np.testing.assert_array_equal(images, others)
            for key in ("boxes", "labels", "count"):
                np.testing.assert_array_equal(labels[key], other_labels[key])
        return
    first, second = by_number(first), by_number(second)
    assert first.keys() == second.keys()
    for number in first:
        for key in ("boxes", "labels", "count"):
            np.testing.assert_array_equal(first[number][key], second[number][key])


def test_a_smaller_visible_share_keeps_more(paths):
    batches = [read(paths, augment=[CROP], min_visible=share, epochs=4) for share in (0, 0.5, 1)]
    counts = [sum(labels["count"].sum() for _, labels in each) for each in batches]
    assert counts[0] > counts[1] > counts[2] > 0


def test_boxes_are_the_same_for_any_workers_and_after_a_resume(paths):
    options = {"augment": [CROP, "flip_horizontal"], "epochs": 2}
    whole = read(paths, **options)
    shares = [read(paths, **options, worker=worker, workers=2) for worker in range(2)]
    for (images, labels), *parts in zip(whole, *shares, strict=True):
        np.testing.assert_array_equal(images, np.concatenate([part[0] for part in parts]))
        for key in labels:
            joined = np.concatenate([part[1][key] for part in parts])
            np.testing.assert_array_equal(labels[key], joined)
    resumed = read(paths, **(options | {"epochs": 1}), first_epoch=1)
    assert_same(whole[len(whole) // 2 :], resumed)
    held = read(paths, **options, hold_decoded=False, compiled=False)
    assert_same(whole, held)


def test_with_a_graph_and_further_columns(paths, tmp_path):
    graph = graphs.write_graph(tmp_path / "graph", (HEIGHT, WIDTH, 3))
    plain, batches = read(paths, "eval"), read(paths, "eval", graph=graph, columns=["kind"])
    for (images, labels), (inputs, other_labels) in zip(plain, batches, strict=True):
        assert inputs["image"].dtype == np.float32 and inputs["image"].shape == images.shape
        assert inputs["kind"].tolist() == [number_of(image) % 2 for image in images]
        for key in labels:
            np.testing.assert_array_equal(labels[key], other_labels[key])


def test_shapes_are_known_before_a_batch_is_read(paths):
    images, labels = open_batches(paths, remainder="drop").element_spec
    assert images.shape == (4, HEIGHT, WIDTH, 3)
    shapes = {key: spec.shape.as_list() for key, spec in labels.items()}
    assert shapes == {"boxes": [4, 3, 4], "labels": [4, 3], "count": [4]}


def test_many_views_are_mirrored_with_their_boxes(paths):
    views = {"crops": 1, "mirror": True}
    batches = read(paths, many_views=views, augment=["flip_horizontal"])
    assert check_follow(batches) == 2 * sum(
        len(list(boxes_of(number_of(image)))) for images, _ in read(paths) for image in images
    )


def test_a_service_gives_the_same_boxes(paths, address):  # noqa: F811
    options = {"augment": [CROP, "flip_horizontal"], "source": "streaming", "view": VIEW}
    served = read(paths, **options, data_service=address)
    assert_same(read(paths, **options), served, in_order=False)


def test_shards_alone_are_padded_to_their_batch(folder, paths, tmp_path):
    for shard in (folder / "data" / "Split-train").iterdir():
        shutil.copy(shard, tmp_path / shard.name)
    batches = read(str(tmp_path / "*"), "eval", batch_size=1)
    for _, labels in batches:
        check_labels(labels, most=labels["boxes"].shape[1])
    padded = by_number(read(paths, "eval"))
    for number, labels in by_number(batches).items():
        wanted = padded.pop(number)
        assert labels["count"] == wanted["count"]
        for key in ("boxes", "labels"):
            np.testing.assert_array_equal(labels[key], wanted[key][: len(labels[key])])
    assert not padded


def test_a_skipped_record_takes_its_boxes_along(folder, tmp_path):
    shutil.copytree(folder / "data", tmp_path / "data")
    shard = next((tmp_path / "data" / "Split-train").iterdir())
    flip_bit(str(shard), 400)
    paths = str(tmp_path / "data" / "Split-train" / "*")
    options = {"augment": [CROP, "flip_horizontal"], "min_visible": 0.5}
    whole = read(str(folder / "data" / "Split-train" / "*"), **options)
    skipped = read(paths, **options, bad_records="skip")
    assert check_follow(skipped, atol=2.01) > 5
    first, second = by_number(whole), by_number(skipped)
    assert len(second) == len(first) - 1


@pytest.mark.parametrize("source", ["indexed", "streaming"])
def test_images_without_boxes_have_room_for_one(folder, tmp_path, source):
    rows = [make_row(number) | {"boxes": []} for number in range(8)]
    (folder / "empty.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ingest(folder / "empty.jsonl", tmp_path / "data", boxes={"classes": CLASSES})
    shards = tmp_path / "data" / "Split-train"
    batches = read(str(shards / "*"), source=source, augment=[CROP, "flip_horizontal"])
    for shard in shards.iterdir():
        shutil.copy(shard, tmp_path / shard.name)
    batches += read(str(tmp_path / "*-of-*"), "eval", source="streaming")
    for _, labels in batches:
        check_labels(labels, most=1)
        assert not labels["count"].any()


def test_columns_of_boxes_are_not_fed_twice(paths):
    with pytest.raises(UserError, match="names 'image/object/class/label', of which the labels"):
        read(paths, columns=["image/object/class/label"])
    (inputs, labels), *_ = read(paths, columns=["image/object/area"])
    assert len(inputs["image/object/area"]) == len(labels["count"])


@pytest.mark.parametrize("step", ["mixup", "cutmix"])
def test_what_mixes_labels_is_refused(paths, step):
    with pytest.raises(UserError, match="mix labels, which boxes cannot be"):
        read(paths, augment=[step])


def test_data_sets_of_other_classes_are_not_read_together(folder, paths, tmp_path):
    ingest(folder / "images.jsonl", tmp_path / "data", boxes={"classes": [*CLASSES, "dog"]})
    other = str(tmp_path / "data" / "Split-train" / "*")
    with pytest.raises(UserError, match="must have boxes of the same classes"):
        read([paths, other])
    plain = {"columns": {"boxes": None}, "label_pattern": None}
    ingest(folder / "images.jsonl", tmp_path / "plain", **plain)
    with pytest.raises(UserError, match=r"must all have masks, or boxes.*plain has neither"):
        read([paths, str(tmp_path / "plain" / "Split-train" / "*")])


def shift(images, keys, boxes):
    """A user's step: one column to the right."""
    del keys
    return tf.roll(images, 1, axis=2), boxes + tf.constant([0, 1 / WIDTH, 0, 1 / WIDTH])


def color(images, keys):
    del keys
    return images


def test_a_user_s_step_moves_boxes(paths):
    plain = read(paths)
    shifted = read(paths, augment=["tests.feeding.test_fed_boxes.shift"])
    for (_, labels), (_, moved) in zip(plain, shifted, strict=True):
        is_box = labels["labels"] >= 0
        wanted = labels["boxes"][is_box] + np.float32([0, 1 / WIDTH, 0, 1 / WIDTH])
        np.testing.assert_allclose(moved["boxes"][is_box], wanted.clip(0, 1), atol=1e-6)
    with pytest.raises(UserError, match="must move boxes with their images: let it take boxes="):
        read(paths, augment=["tests.feeding.test_fed_boxes.color"])


def test_boxes_that_are_left_come_first():
    boxes = np.full((1, 4, 4), [0.1, 0.1, 0.5, 0.5], np.float32)
    boxes[0, :, 0] = [0.1, 0.2, 0.3, 0]
    boxes[0, 3] = 0
    found = finish_boxes(
        tf.constant(boxes), tf.constant([[0.2, 0.9, 0.25, 0.0]]), tf.constant([[7, 8, 9, -1]]), 0.25
    )
    assert found["labels"].numpy().tolist() == [[8, 9, -1, -1]]
    assert found["count"].numpy().tolist() == [2]
    np.testing.assert_array_equal(found["boxes"][0, :, 0], np.float32([0.2, 0.3, 0, 0]))


def test_keras_fits_on_them(paths):
    import keras

    inputs = keras.Input((HEIGHT, WIDTH, 3))
    features = keras.layers.GlobalAveragePooling2D()(keras.ops.cast(inputs, "float32"))
    outputs = {"boxes": keras.layers.Reshape((3, 4))(keras.layers.Dense(12)(features))}
    model = keras.Model(inputs, outputs)
    model.compile(loss={"boxes": "mse"})
    batches = open_batches(paths, epochs=1).map(lambda image, y: (image, {"boxes": y["boxes"]}))
    history = model.fit(batches, epochs=3, verbose=0).history["loss"]
    assert len(history) == 3 and np.isfinite(history).all()
