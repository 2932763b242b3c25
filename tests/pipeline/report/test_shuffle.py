import pytest

from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.order.quality import ideal_quality
from image_pipeline.report.shuffle import describe_shuffle

pytestmark = pytest.mark.beam


def test_shuffle_beside_the_ideal(data):
    shuffle = describe_shuffle(data, FeedingOptions(batch_size=4), seed=0)
    labels = data.index.label[data.split == 0]
    ideal = ideal_quality(labels, 4)
    rows = {row.name: row for row in shuffle.rows}
    assert shuffle.batch_size == 4
    assert rows["classes_in_batch"].ideal == pytest.approx(ideal.classes_in_batch)
    assert rows["repeated_neighbours"].ideal == 2 / len(labels)
    runs = 1 + (labels[1:] != labels[:-1]).sum()
    assert rows["label_run"].stored == len(labels) / runs
    assert all(abs(getattr(rows["rank_correlation"], name)) < 0.7 for name in ("stored", "epoch"))


def test_another_seed_is_another_epoch_of_the_same_stored_order(data):
    first, second = (describe_shuffle(data, FeedingOptions(), seed).rows for seed in (0, 1))
    assert [row.stored for row in first] == [row.stored for row in second]
    assert first[0].epoch != second[0].epoch


def test_a_balanced_order_has_no_ideal(data):
    shuffle = describe_shuffle(data, FeedingOptions(balance="uniform"), seed=0)
    assert [row.ideal for row in shuffle.rows] == [None] * 4
