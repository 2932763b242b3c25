"""Boxes and masks in batches: cut by views, damaged, dropped, padded, moved by a user's step.

What all labels have in common is in `tests/contracts`.
"""

import collections
import gzip
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.box_batches import finish_boxes
from image_pipeline.components.views.options import ViewOptions
from tests.contracts.fed import (
    assert_same,
    by_number,
    check_follow,
    each,
    number_of,
    open_batches,
    read,
    unindexed,
)
from tests.contracts.kinds import COUNT, CROP, HEIGHT, KINDS, NAMES, WIDTH, write_rows
from tests.ingest_runs import ingest
from tests.shards import flip_bit

pytestmark = pytest.mark.beam

BOXES = KINDS["boxes"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Image 5 has a crowd beside its box, which is stored, but not fed."""
    folder = tmp_path_factory.mktemp("boxed")
    table = BOXES.write(folder / "raw")
    rows = [BOXES.row(number) for number in range(COUNT)]
    rows[5]["boxes"] += [{"bbox": [0, 18, 30, 6], "category": "cat", "iscrowd": 1}]
    write_rows(folder / "raw", rows)
    ingest(table, folder / "data")
    return folder


def test_a_crowd_is_not_fed(folder):
    (inputs, labels), *_ = read(folder, "eval", batch_size=COUNT, columns=["image/object/area"])
    row = inputs["image"][..., 2].max((1, 2)).tolist().index(50)
    place = lambda values: values[row]  # noqa: E731
    assert_same(tf.nest.map_structure(place, labels), BOXES.truth(5))
    assert inputs["image/object/area_length"][row] == 2


@pytest.mark.parametrize(("size", "fraction"), [((24, 24), 1), ((12, 30), 1), ((24, 30), 0.8)])
def test_boxes_follow_the_centre_view(folder, size, fraction):
    view = ViewOptions(height_px=size[0], width_px=size[1], crop_fraction=fraction)
    batches, scanned = (
        read(place, "eval", view=view, min_visible=0.4) for place in (folder, unindexed(folder))
    )
    check_follow(BOXES, batches)
    assert sum(labels["count"].sum() for _, labels in batches) > 5
    assert_same(by_number(batches), by_number(scanned))


def test_a_smaller_visible_share_keeps_more(folder):
    batches = [read(folder, augment=CROP, min_visible=share, epochs=4) for share in (0, 0.5, 1)]
    counts = [sum(labels["count"].sum() for _, labels in each) for each in batches]
    assert counts[0] > counts[1] > counts[2] > 0


def test_shards_alone_are_padded_to_their_batch(folder, tmp_path):
    for shard in (folder / "data").glob("Split-*/*"):
        shutil.copy(shard, tmp_path / f"{shard.parent.name}-{shard.name}")
    found = by_number(read(folder, "eval", files=[f"{tmp_path}/*"], batch_size=1))
    assert sorted(found) == list(range(COUNT))
    for number, (_, labels) in found.items():
        wanted, most = BOXES.truth(number), max(1, number % 4)
        assert len(labels["boxes"]) == most + (number == 5)
        own = {key: wanted[key][: len(labels[key])] for key in ("boxes", "labels")}
        assert_same(labels, wanted | own)


def test_images_without_boxes_have_room_for_one(folder, tmp_path):
    shutil.copytree(folder / "raw", tmp_path / "raw")
    table = write_rows(tmp_path / "raw", [BOXES.row(n) | {"boxes": []} for n in range(8)])
    ingest(table, tmp_path / "data", boxes={"classes": NAMES})
    for shard in (tmp_path / "data/Split-train").iterdir():
        shutil.copy(shard, tmp_path / shard.name)
    alone = [f"{tmp_path}/*-of-*"]
    batches = read(tmp_path, augment=CROP) + read(unindexed(tmp_path), augment=CROP)
    for _, labels in batches + read(tmp_path, "eval", files=alone):
        assert (labels["labels"] == -1).all() and labels["boxes"].shape[1:] == (1, 4)
        assert not labels["boxes"].any() and not labels["count"].any()


def test_data_sets_of_other_classes_are_not_read_together(folder, tmp_path):
    ingest(folder / "raw/t.jsonl", tmp_path / "data", boxes={"classes": [*NAMES, "dog"]})
    both = [str(each / "data/Split-train/*") for each in (folder, tmp_path)]
    with pytest.raises(UserError, match="must have boxes of the same classes"):
        read(folder, files=both)


def shift(images, keys, boxes):
    """A user's step: one column to the right."""
    del keys
    return tf.roll(images, 1, axis=2), boxes + tf.constant([0, 1 / WIDTH, 0, 1 / WIDTH])


def test_a_user_s_step_moves_boxes(folder):
    shifted = read(folder, augment=[f"{__name__}.shift"])
    for (_, labels), (_, moved) in zip(read(folder), shifted, strict=True):
        is_box = labels["labels"] >= 0
        wanted = labels["boxes"][is_box] + np.float32([0, 1 / WIDTH, 0, 1 / WIDTH])
        np.testing.assert_allclose(moved["boxes"][is_box], wanted.clip(0, 1), atol=1e-6)


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


def test_keras_fits_on_them(folder):
    import keras

    inputs = keras.Input((HEIGHT, WIDTH, 3))
    features = keras.layers.GlobalAveragePooling2D()(keras.ops.cast(inputs, "float32"))
    outputs = {"boxes": keras.layers.Reshape((3, 4))(keras.layers.Dense(12)(features))}
    model = keras.Model(inputs, outputs)
    model.compile(loss={"boxes": "mse"})
    batches = open_batches(folder).map(lambda image, y: (image, {"boxes": y["boxes"]}))
    history = model.fit(batches, epochs=3, verbose=0).history["loss"]
    assert len(history) == 3 and np.isfinite(history).all()


MASK = KINDS["mask"]
SMALL = ViewOptions(height_px=18, width_px=20)


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    """`data` with masks and `plain` of the same images without."""
    masked = tmp_path_factory.mktemp("fed")
    table = MASK.write(masked / "raw")
    ingest(table, masked / "data")
    ingest(table, masked / "plain", columns={"mask": None}, label_pattern=None)
    return masked


def test_the_order_and_the_pixels_are_those_of_images_without_masks(masked):
    plain = [str(masked / "plain/Split-train/*")]
    for options in ({"augment": CROP, "seed": 5, "epochs": 2}, {"view": SMALL}):
        both = read(masked, **options), read(masked, files=plain, **options)
        for (images, _), (others, labels) in zip(*both, strict=True):
            np.testing.assert_array_equal(images, others)
            assert set(labels) == {b""}


@pytest.mark.parametrize("more", [{}, {"augment": CROP}, {"mode": "eval"}], ids=str)
def test_masks_of_a_smaller_view_follow(masked, more):
    check_follow(MASK, read(masked, view=SMALL, **more))


def move(images, keys, masks=None):
    """A user's step: the left half to the right, of some."""
    is_moved = (draws.uniform(keys, 1)[:, 0] < 0.5)[:, None, None, None]
    moved = [
        None if each is None else tf.where(is_moved, tf.roll(each, WIDTH // 2, axis=2), each)
        for each in (images, masks)
    ]
    return moved[0] if masks is None else moved


def test_a_user_s_step_moves_masks(masked):
    batches = read(masked, augment=[f"{__name__}.move"])
    check_follow(MASK, batches)
    moved = [(mask != MASK.truth(number_of(image))).any() for image, mask in each(batches)]
    assert 0 < sum(moved) < len(moved)


@pytest.fixture
def damaged(masked, tmp_path):
    """A copy of which a record of the first shard has a damaged mask; and its image's number."""
    shutil.copytree(masked / "data", tmp_path / "data")
    rows = pq.read_table(masked / "data/index.parquet").to_pylist()
    row = [each for each in rows if each["split"] == "train" and each["shard"] == 0][2]
    shard = min((tmp_path / "data/Split-train").iterdir())
    flip_bit(str(shard), shard.read_bytes().index(b"\x89PNG", row["record_offset"]) + 1)
    return tmp_path, int(row["source"][:2])


@pytest.mark.whole
@pytest.mark.parametrize("verify", ["always", "none"])
@pytest.mark.parametrize("hold_decoded", [True, False])
def test_a_damaged_mask_stops_or_is_skipped_with_its_image(damaged, verify, hold_decoded):
    masked, number = damaged
    options = {"verify": verify, "hold_decoded": hold_decoded, "batch_size": 5, "split": "train"}
    whole = read_manifest(str(masked / "data")).splits["train"].records
    with pytest.raises(tf.errors.OpError, match=r"mask|checksum"):
        read(masked, "eval", **options)
    for mode in ("eval", "train"):
        found = collections.Counter()
        for image, mask in each(read(masked, mode, bad_records="skip", epochs=2, **options)):
            assert_same(mask, MASK.truth(number_of(image)))
            found[number_of(image)] += 1
        assert number not in found
        assert (sum(found.values()) == 2 * whole) == (mode == "train")


def test_compressed_and_copied_shards_have_masks_too(masked, tmp_path):
    shard = min((masked / "data/Split-train").iterdir())
    copied, packed = tmp_path / "some.tfrecord", tmp_path / "Split-train"
    shutil.copy(shard, copied)
    packed.mkdir()
    (packed / f"{shard.name}.gz").write_bytes(gzip.compress(shard.read_bytes()))
    shutil.copy(masked / "data/manifest.json", tmp_path)
    for files in ([str(copied)], [str(packed / "*.gz")]):
        batches = read(masked, "eval", files=files, cache_dir=str(tmp_path / "cache"))
        assert batches
        for image, mask in each(batches):
            assert_same(mask, MASK.truth(number_of(image)))
