"""Batches of TFRecords that others wrote: whatever order, kinds and lists their features have."""

import re

import cv2
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.feeding.input_fn import ImageBatches, input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.tags import SEPARATOR
from image_pipeline.components.labels.kinds import BOXES
from image_pipeline.components.views.options import ViewOptions
from tests import shards
from tests.feeding.foreign import describe, write_foreign

pytestmark = pytest.mark.unit

VIEW = ViewOptions(height_px=12, width_px=16)
NAMES = [f"{number}" for number in range(7)]


def read(folder, mode="eval", columns=(), **options):
    feeding = FeedingOptions(**{"batch_size": 4, "augment": [], **options})
    passes = Passes(mode=mode, seed=3)
    found = ImageBatches([f"{folder}/*"], VIEW, feeding, passes, columns).read()
    return list(found.as_numpy_iterator())


def write(folder, change=lambda number, features: features, files=2):
    """Seven records in two files; the label of record n is 'n'."""
    records = [change(n, describe(n, name)) for n, name in enumerate(NAMES)]
    for number in range(files):
        write_foreign(folder / f"{number}.tfrecord", records[number::files])
    return folder


def labels_of(batches):
    return [int(label) for batch in batches for label in batch["label"]]


@pytest.mark.parametrize("options", [{}, {"hold_decoded": False}, {"verify": "none"}], ids=str)
def test_images_are_found_wherever_they_are_in_a_record(tmp_path, options):
    batches = read(write(tmp_path), **options)
    assert labels_of(batches) == [0, 2, 4, 6, 1, 3, 5]
    for batch in batches:
        for number, image in zip(batch["label"], batch["image"], strict=True):
            np.testing.assert_array_equal(image, shards.draw_image(int(number)))


def test_two_epochs_are_two_permutations(tmp_path):
    feeding = FeedingOptions(batch_size=7, augment=[])
    found = input_fn(
        [f"{write(tmp_path)}/*"],
        view=VIEW,
        feeding=feeding,
        transform_graph_dir=None,
        mode="train",
        epochs=2,
    )
    assert int(found.cardinality()) == 2 and found.class_names == NAMES
    first, second = ([int(each) for each in labels] for _, labels in found.as_numpy_iterator())
    assert sorted(first) == sorted(second) == list(range(7)) != first != second


def test_columns_of_numbers_and_lists_are_read_as_tensorflow_reads_them(tmp_path):
    """As a transform graph asks for them, and another writer has them: also not packed."""

    def change(number, features):
        numbers = b"".join(b"\x08" + bytes([n]) for n in range(number))
        return features | {
            record.VALUE: [number / 2],
            record.TAGS: [b"t"] * number,
            "ints": b"\x1a" + bytes([len(numbers)]) + numbers,
        }

    columns = [
        record.LABEL_COLUMNS["float"],
        record.LABEL_COLUMNS["strings"],
        record.Column("ints", "int64", is_list=True),
    ]
    for batch in read(write(tmp_path, change), columns=columns):
        for place, number in enumerate(map(int, batch["label"])):
            assert batch[record.VALUE][place] == np.float32(number / 2)
            assert batch[record.TAGS][place] == SEPARATOR.encode().join([b"t"] * number)
            assert batch["ints_length"][place] == number
            assert batch["ints"][place].tolist()[:number] == list(range(number))


def test_masks_and_boxes_of_others_follow_their_images(tmp_path):
    def change(number, features):
        ids = np.full((12, 16), number, np.uint8)
        near, far = [0.25], [0.5]
        sides = {record.BOX_XMIN.key: near, record.BOX_XMAX.key: far}
        sides |= {record.BOX_YMIN.key: near, record.BOX_YMAX.key: far}
        labels = {record.BOX_LABEL.key: [number + 1], record.BOX_CROWD.key: [0]}
        return {record.MASK: [cv2.imencode(".png", ids)[1].tobytes()]} | features | sides | labels

    folder = write(tmp_path, change)
    for batch in read(folder, columns=[record.MASK_COLUMN]):
        for number, mask in zip(batch["label"], batch[record.MASK], strict=True):
            assert (mask == int(number)).all()
    for batch in read(folder, columns=BOXES.columns):
        assert batch["boxes"][:, 0].tolist() == [[0.25, 0.25, 0.5, 0.5]] * len(batch["label"])
        assert batch["box_labels"][:, 0].tolist() == [int(label) for label in batch["label"]]


def test_a_resumed_training_goes_on_where_it_stood(tmp_path):
    feeding = FeedingOptions(batch_size=2, augment=["random_resized_crop"])

    def images(**position):
        found = input_fn(
            [f"{write(tmp_path)}/*"],
            view=VIEW,
            feeding=feeding,
            transform_graph_dir=None,
            mode="train",
            **position,
        )
        return [images.tobytes() for images, _ in found.as_numpy_iterator()]

    whole = images(epochs=2)
    assert images(epochs=2, first_step=3) == whole[3:]
    assert images(first_epoch=1) == whole[4:]


@pytest.mark.parametrize(
    ("problem", "options", "told"),
    [
        ("flip", {}, r"record 1 of \S+0\.tfrecord is damaged: .*; write its file again, or set"),
        ("text", {}, r"record 1 of \S+0\.tfrecord is damaged: its image cannot be decoded"),
        ("flip", {"bad_records": "skip"}, None),
        ("text", {"bad_records": "skip"}, None),
    ],
)
def test_a_record_that_cannot_be_read_is_named_or_skipped(tmp_path, problem, options, told):
    def change(number, features):
        is_it = problem == "text" and number == 2
        return features | ({record.IMAGE: [b"text"]} if is_it else {})

    folder = write(tmp_path, change)
    if problem == "flip":
        path = folder / "0.tfrecord"
        content = path.read_bytes()
        second = content.index(b"IDAT", content.index(b"IDAT") + 4)
        shards.flip_bit(str(path), second + 9)
    if told is None:
        assert labels_of(read(folder, **options)) == [0, 4, 6, 1, 3, 5]
        trained = read(folder, "train", **options)
        assert [len(batch["label"]) for batch in trained] == [4, 3]
        return
    with pytest.raises(tf.errors.OpError) as caught:
        read(folder, **options)
    assert re.search(told, str(find_user_error(caught.value)))


def test_a_file_that_grows_is_read_whole_by_the_next_data_set(tmp_path):
    folder = write(tmp_path, files=1)
    assert labels_of(read(folder)) == list(range(7))
    with tf.io.TFRecordWriter(str(tmp_path.parent / "more")) as writer:
        writer.write(shards.make_example(shards.draw_image(7), "7"))
    path = folder / "0.tfrecord"
    before = read(folder)
    path.write_bytes(path.read_bytes() + (tmp_path.parent / "more").read_bytes())
    assert labels_of(before) == list(range(7))
    assert labels_of(read(folder)) == list(range(8))


def test_values_of_another_type_than_the_view_s_are_refused(tmp_path):
    def change(number, features):
        return features | {record.FORMAT: [b"raw_uint16"], record.IMAGE: [bytes(12 * 16 * 3 * 2)]}

    with pytest.raises(UserError, match=r"are stored as uint16 .* set view\.dtype=float32"):
        read(write(tmp_path, change))
