"""Batches of TFRecords that others wrote: whatever order, kinds and lists their features have."""

import gzip
import io
import pathlib
import re

import cv2
import hypothesis.strategies as st
import numpy as np
import obstore
import pytest
import tensorflow as tf
from hypothesis import given

from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.tfrecord import frame
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.input_fn import ImageBatches, input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.parse import SEPARATOR, join_tags, multi_hot, split_tags
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.records import find_label_kind, match_files, read_manifests
from image_pipeline.components.labels.kinds import BOXES, CLASSES, MASKS
from image_pipeline.components.stores import remote
from image_pipeline.components.stores.objects import Address, ObjectStore
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


def test_spec_follows_the_columns():
    columns = (
        record.Column("a", "bytes"),
        record.Column("b", "int64"),
        record.Column("c", "float32", is_list=True),
    )
    assert parse.feature_spec(columns) == {
        "a": tf.io.FixedLenFeature([], tf.string),
        "b": tf.io.FixedLenFeature([], tf.int64),
        "c": tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64),
    }


def test_a_record_comes_back_as_it_was_written():
    features = parse.parse_record(shards.make_example(shards.draw_image(0), "dog"), record.COLUMNS)
    assert features[record.LABEL] == b"dog"
    assert (features[record.HEIGHT], features[record.WIDTH], features[record.CHANNELS]) == (
        12,
        16,
        3,
    )
    assert features[record.IMAGE] == shards.encode_image(shards.draw_image(0), "png")


def test_list_columns_become_vectors():
    columns = (record.Column("boxes", "float32", is_list=True),)
    full = parse.parse_record(record.encode_example({"boxes": [1.5, 2.5]}, columns), columns)
    empty = parse.parse_record(record.encode_example({"boxes": []}, columns), columns)
    assert (full["boxes"].numpy().tolist(), empty["boxes"].numpy().tolist()) == ([1.5, 2.5], [])


def test_a_record_without_a_column_names_it():
    empty = record.encode_example({}, ())
    with pytest.raises(tf.errors.InvalidArgumentError, match="image/class/text"):
        parse.parse_record(empty, [parse.LABEL_COLUMN])


@pytest.mark.parametrize("image_format", ["png", "raw"])
@pytest.mark.parametrize("stored_channels", [1, 3])
def test_lossless_formats_decode_to_their_pixels(image_format, stored_channels):
    image = shards.draw_image(5, channels=stored_channels)
    serialized = shards.make_example(image, image_format=image_format)
    features = parse.parse_record(serialized, parse.IMAGE_COLUMNS)
    decode = tf.function(parse.decode_record, autograph=False)
    view = ViewOptions(channels=stored_channels)
    np.testing.assert_array_equal(decode(features, view), image)
    if stored_channels == 1:
        np.testing.assert_array_equal(decode(features, ViewOptions()), np.repeat(image, 3, axis=2))


def test_raw_pixels_that_look_like_a_jpeg_stay_pixels():
    image = shards.draw_image(0)
    image[0, 0] = (0xFF, 0xD8, 0xFF)
    serialized = shards.make_example(image, image_format="raw")
    features = parse.parse_record(serialized, parse.IMAGE_COLUMNS)
    np.testing.assert_array_equal(parse.decode_record(features, ViewOptions()), image)


TAG = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), min_size=1)


@given(st.lists(st.lists(TAG, max_size=5), min_size=1, max_size=5))
def test_splitting_is_the_inverse_of_joining(tags):
    encoded = [[tag.encode() for tag in each] for each in tags]
    joined = join_tags(tf.ragged.constant(encoded, tf.string, ragged_rank=1))
    assert joined.shape == [len(tags)]
    assert split_tags(joined).to_list() == encoded


def test_unknown_tags_mark_none_and_repeated_ones_mark_once():
    ids = tf.ragged.constant([[2, 0], [], [-1, 1, 1], [-1]], tf.int64)
    expected = [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_array_equal(multi_hot(ids, 3), expected)


@given(st.lists(st.lists(st.integers(-1, 6), max_size=9), min_size=1, max_size=6))
def test_each_row_marks_the_ids_that_it_has(ids):
    ragged = tf.ragged.constant(ids, tf.int64, ragged_rank=1)
    expected = [[each in row for each in range(7)] for row in ids]
    marked = tf.function(multi_hot)(ragged, 7)
    assert marked.dtype == tf.float32 and marked.shape == [len(ids), 7]
    np.testing.assert_array_equal(marked, expected)


def test_parsed_tags_are_one_dense_string_a_record():
    columns = [record.LABEL_COLUMNS["strings"]]
    rows = [[b"b", b"a"], [], ["ü".encode()]]
    serialized = [record.encode_example({record.TAGS: row}, columns) for row in rows]
    parsed = parse.parse_batch(tf.constant(serialized), columns)[record.TAGS]
    assert isinstance(parsed, tf.Tensor)
    assert parsed.numpy().tolist() == [b"b\na", b"", "ü".encode()]


RECORDS = 20


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """Twenty records in four shards."""
    folder = tmp_path_factory.mktemp("data") / "Split-train"
    return shards.write_shards(folder, shards.make_examples(RECORDS), 4)


def test_files_are_sorted_and_listed_once(pattern):
    paths = match_files([pattern, pattern.replace("*", "00003*")])
    assert [path[-14:-9] for path in paths] == ["00000", "00001", "00002", "00003"]


def test_a_pattern_without_files_is_an_error(pattern):
    with pytest.raises(UserError, match=r"no file matches \['/nowhere/\*'\]; check the path"):
        match_files([pattern, "/nowhere/*"])
    with pytest.raises(UserError, match="no file matches none"):
        match_files([])


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("s3://bkt/data/Split-*/*", ["data/Split-eval/0", "data/Split-train/0"]),
        ("s3://bkt/*/Split-eval/?", ["data/Split-eval/0"]),
        ("s3://bkt/data/Split-[et]*/0", ["data/Split-eval/0", "data/Split-train/0"]),
        ("s3://bkt/data/Split-train/0", ["data/Split-train/0"]),
        ("s3://bkt/to*", ["top"]),
    ],
)
def test_any_part_of_a_pattern_may_have_wildcards(monkeypatch, pattern, found):
    store = ObjectStore(Address("s3", "s3://bkt/", "bkt"), obstore.store.MemoryStore())
    monkeypatch.setattr(remote, "_find_store", lambda uri: store)
    for name in ("data/Split-eval/0", "data/Split-train/0", "data/other/0", "top"):
        store.put(f"s3://bkt/{name}", io.BytesIO(b"data"))
    assert match_files([pattern]) == [f"s3://bkt/{name}" for name in found]


def test_what_is_hidden_matches_no_pattern(pattern, tmp_path):
    for name in (".hidden", "a"):
        (tmp_path / name).write_bytes(b"")
    assert match_files([f"{tmp_path}/*"]) == [str(tmp_path / "a")]


def test_what_only_tensorflow_reads_is_where_it_can():
    for path in ("/data/file", "gs://bucket/file"):
        files.check_known_to_tensorflow(path, "the graph")
    with pytest.raises(UserError, match=r"^the graph must be .* TensorFlow .* az://box/file; use"):
        files.check_known_to_tensorflow("az://box/file", "the graph")


@pytest.mark.parametrize(
    ("further", "kind"),
    [
        ({}, CLASSES),
        ({record.MASK: [b"png"]}, MASKS),
        ({record.BOX_LABEL.key: [1, 2]}, BOXES),
        ({record.BOX_LABEL.key: []}, BOXES),
    ],
    ids=["classes", "masks", "boxes", "no boxes"],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_first_record_tells_the_labels(tmp_path, further, kind, ending):
    path = pathlib.Path(write_foreign(tmp_path / f"b{ending}", [describe(0, "cat", **further)]))
    if ending:
        path.write_bytes(gzip.compress(path.read_bytes()))
    (tmp_path / "a").write_bytes(b"")  # Has no record, and tells nothing.
    assert find_label_kind([f"{tmp_path}/*"]) is kind


@pytest.mark.parametrize("content", [b"", b"no record", frame(b"no example")])
def test_what_is_no_record_has_no_labels(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    assert find_label_kind([str(tmp_path / "a")]) is CLASSES


def test_shards_without_a_manifest_have_none_and_nobody_asks_twice(tmp_path, monkeypatch):
    pattern = shards.write_shards(tmp_path / "Split-train", shards.make_examples(2), 1)
    asked = []
    read = files.read_file
    monkeypatch.setattr(files, "exists", lambda path: asked.append(f"exists {path}"))
    monkeypatch.setattr(files, "read_file", lambda path: asked.append(path) or read(path))
    assert read_manifests([pattern]) == {}
    assert asked == [f"{tmp_path}/manifest.json"]
