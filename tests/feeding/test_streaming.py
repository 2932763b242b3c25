import gzip
import logging
import pathlib

import pytest
import tensorflow as tf

from components.errors import UserError
from components.feeding import streaming
from components.feeding.input_fn import input_fn
from components.feeding.options import FeedingOptions
from components.view_options import ViewOptions
from tests import shards

pytestmark = pytest.mark.unit

RECORDS = 20


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """Twenty records in four shards."""
    folder = tmp_path_factory.mktemp("data") / "Split-train"
    return shards.write_shards(folder, shards.make_examples(RECORDS), 4)


def test_count_records_counts_all_shards(pattern):
    assert streaming.count_records([pattern]) == RECORDS


def test_files_are_sorted_and_listed_once(pattern):
    paths = streaming.match_files([pattern, pattern.replace("*", "00003*")])
    assert [path[-14:-9] for path in paths] == ["00000", "00001", "00002", "00003"]


def test_a_pattern_without_files_is_an_error(pattern):
    with pytest.raises(UserError, match=r"no file matches \['/nowhere/\*'\]; check the path"):
        streaming.match_files([pattern, "/nowhere/*"])
    with pytest.raises(UserError, match="no file matches none"):
        streaming.match_files([])


def test_gzipped_shards_are_counted_by_their_ending(pattern, tmp_path):
    for path in sorted(pathlib.Path(pattern).parent.iterdir()):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert streaming.count_records([str(tmp_path / "*.gz")]) == RECORDS


def test_a_record_that_is_no_example_is_named(tmp_path):
    path = str(tmp_path / "texts.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"a line of text")
    with pytest.raises(UserError, match=r"tf.train.Example, but record 0 of \S+texts.tfrecord"):
        input_fn(
            [path],
            view=ViewOptions(),
            feeding=FeedingOptions(source="streaming"),
            transform_graph_dir=None,
            mode="train",
        )


def test_records_of_other_origin_say_what_they_lack(tmp_path):
    example = tf.train.Example()
    example.features.feature["image/encoded"].bytes_list.value.append(b"jpeg")
    path = str(tmp_path / "foreign.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(example.SerializeToString())
    with pytest.raises(UserError, match=r"foreign.tfrecord must have .*image/source_id.*migrating"):
        input_fn(
            [path],
            view=ViewOptions(),
            feeding=FeedingOptions(source="streaming"),
            transform_graph_dir=None,
            mode="eval",
        )


def test_without_a_graph_the_plan_counts_bytes_not_floats(pattern, caplog):
    with caplog.at_level(logging.INFO):
        batches = input_fn(
            [pattern],
            view=ViewOptions(height_px=8, width_px=8),
            feeding=FeedingOptions(source="streaming", batch_size=4),
            transform_graph_dir=None,
            mode="eval",
        )
    assert next(iter(batches))[0].dtype == tf.uint8
    assert "x 4 batch_size x 8 x 8 x 3, uint8" in caplog.text and "float32" not in caplog.text
