import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Passes

pytestmark = pytest.mark.unit


def test_workers_share_a_batch_equally():
    feeding = FeedingOptions(batch_size=12)
    assert Passes(mode="train", workers=3).share_of_batch(feeding) == 4
    with pytest.raises(UserError, match=r"must be a multiple of the 5 workers .* got 12; set"):
        Passes(mode="train", workers=5).share_of_batch(feeding)


def test_what_is_mixed_is_not_parted():
    feeding = FeedingOptions(batch_size=12, augment=["cutmix"])
    assert Passes(mode="train", workers=3).share_of_batch(feeding) == 4
    with pytest.raises(UserError, match="must have an even share of a batch, got 3; set feed"):
        Passes(mode="train", workers=4).share_of_batch(feeding)
    assert Passes(mode="eval", workers=4).share_of_batch(feeding) == 3


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_of_a_shorter_last_batch_each_record_is_one_workers_and_pairs_stay_together(workers):
    feeding = FeedingOptions(batch_size=12, augment=["mixup"])
    for count in range(1, 13):
        passes = [Passes(mode="train", worker=n, workers=workers) for n in range(workers)]
        bounds = [[int(end) for end in each.cut_share(count, feeding)] for each in passes]
        starts, stops = zip(*bounds, strict=True)
        assert (*starts, count) == (0, *stops)
        assert all(start % 2 == 0 for start in starts if start < count)


@pytest.mark.parametrize("epochs", [3, None])
def test_epochs_are_counted_from_the_first(epochs):
    numbers = Passes(mode="train", first_epoch=5, epochs=epochs).count_epochs()
    assert list(numbers.take(4).as_numpy_iterator()) == [5, 6, 7, 8][: epochs or 4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "test"}, "mode must be 'train' or 'eval', got 'test'"),
        ({"mode": "eval", "worker": 2, "workers": 2}, "from 0 to workers - 1, got 2 of 2"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        Passes(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"first_step": -1}, "first_step must be a whole number of at least 0, got -1"),
        ({"first_epoch": -2}, "first_epoch must be a whole number of at least 0, got -2"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"epochs": 2.5}, "epochs must be a whole number of at least 1, got 2.5"),
    ],
)
def test_places_before_the_beginning_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        Passes(mode="train", **arguments)
