import numpy as np
import pytest

from image_pipeline.report.classes import (
    choose_samples,
    describe_books,
    describe_classes,
    describe_shards,
)

pytestmark = pytest.mark.beam


def test_the_books(source):
    books = describe_books(source.manifest)
    assert [books[name] for name in ("found", "written", "duplicates", "quarantined")] == [
        *(27, 23, 2, 2)
    ]
    assert books["balanced"]
    off = source.manifest.books.model_copy(update={"found": 28})
    assert not describe_books(source.manifest.model_copy(update={"books": off}))["balanced"]


def test_classes_by_split(source, data):
    classes = describe_classes(source.manifest.books.classes)
    labels = np.array(data.index.classes)[data.index.label]
    assert classes.splits == ["train", "eval"] == list(data.splits)
    assert [(row.name, row.total) for row in classes.rows] == [("cat", 13), ("dog", 10)]
    for row in classes.rows:
        of_class = data.split[labels == row.name]
        assert row.counts == np.bincount(of_class, minlength=2).tolist()
    assert classes.missing == [] and classes.ratio == 1.3


def test_a_class_that_a_split_lacks_is_counted():
    classes = describe_classes({"train": {"ant": 4, "bee": 2}, "eval": {"bee": 1}})
    assert classes.missing == [("eval", 1)]
    assert [row.counts for row in classes.rows] == [[4, 0], [2, 1]]


def test_shards_and_their_balance(source):
    rows = describe_shards(source.manifest)
    assert [(row.split, row.shards) for row in rows] == [("train", 2), ("eval", 2)]
    for row in rows:
        split = source.manifest.splits[row.split]
        assert (row.records, row.bytes) == (split.records, split.bytes)
        assert row.most_records - row.least_records <= 1
        assert row.least_bytes == min(shard.bytes for shard in split.shards)


def test_samples_of_every_class(data):
    samples = choose_samples(data)
    assert samples.classes == 2
    assert [row.name for row in samples.rows] == ["cat", "dog"]
    for code, row in enumerate(samples.rows):
        assert len(row.rows) == 8
        assert set(data.index.label[row.rows]) == {code}
