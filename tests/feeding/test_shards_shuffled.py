"""Training in a shuffle by shards: as exact, shared, resumed and selected as in that of records."""

import itertools

import numpy as np
import pytest

from image_pipeline import api
from image_pipeline.components.dataset.index import read_index, read_table
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.verify_epoch import verify_epoch

pytestmark = pytest.mark.beam

VIEW = {"height_px": 12, "width_px": 16}
SHARDS = {"shuffle": "shards", "shards_at_once": 2}


@pytest.fixture(scope="module")
def data(data_set):
    return str(data_set)


def opened(data, **options):
    return api.batches(data, view=VIEW, **{"batch_size": 4, "augment": []} | SHARDS | options)


def rows_of(batches, epoch=0):
    return [batches._reader.draw(epoch, step)["row"].tolist() for step in range(len(batches))]


def flat(batches):
    return list(itertools.chain(*batches))


def test_an_epoch_has_every_record_once_in_another_order(data, train_shards):
    orders = [
        flat(rows_of(opened(data, **options)))
        for options in (
            {"shuffle": "records"},
            {},
            {"shards_at_once": 1},
            {"batch_size": 5},
            {"seed": 1},
        )
    ]
    orders.append(flat(rows_of(opened(data), epoch=1)))
    assert len({str(order) for order in orders}) == 6
    assert all(sorted(order) == list(range(len(read_index(train_shards)))) for order in orders)


def test_one_shard_at_a_time_is_one_after_the_other(data, train_shards):
    shard = read_index(train_shards).shard[flat(rows_of(opened(data, shards_at_once=1)))]
    assert np.count_nonzero(np.diff(shard)) == len(train_shards) - 1


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_and_tensorflow_see_the_same_batches_from_any_step(data, workers):
    options = SHARDS | {"batch_size": 4, "augment": ["flip_horizontal"], "epochs": 2, "seed": 7}
    whole = [images.numpy() for images, _ in api.input_fn(data, view=VIEW, **options)]
    for first_step in (0, 3):
        shares = [
            opened(data, **options, first_step=first_step, worker=worker, workers=workers)
            for worker in range(workers)
        ]
        for images, *parts in zip(whole[first_step:], *shares, strict=True):
            found = np.concatenate([part["image"] for part in parts])
            np.testing.assert_array_equal(found, images)


@pytest.mark.parametrize("remainder", ["keep", "drop", "pad"])
@pytest.mark.parametrize("views", [{}, {"mirror": True}], ids=str)
def test_where_an_image_is_fed_is_where_it_comes(data, train_shards, remainder, views):
    batches = opened(data, remainder=remainder, many_views=views)
    sources = read_table(train_shards, ["source"])["source"].to_pylist()
    comes = {source: [] for source in sources}
    length = batches._reader.order.length
    for epoch in (0, 1):
        for place, row in enumerate(flat(rows_of(batches, epoch))[:length]):
            comes[sources[row]].append((epoch, *divmod(place, 4)))
    for source, expected in comes.items():
        found = [(each.epoch, each.step, each.place) for each in batches.where(source, range(2))]
        assert found == expected


def test_what_is_selected_is_all_that_comes(data, train_shards):
    index = read_index(train_shards)
    cats = np.flatnonzero(index.label == index.classes.index("cat"))
    assert sorted(flat(rows_of(opened(data, select={"where": 'label == "cat"'})))) == cats.tolist()
    folds = [flat(rows_of(opened(data, select={"fold": [fold, 2]}))) for fold in (0, 1)]
    assert sorted(folds[0] + folds[1]) == list(range(len(index)))


def test_an_epoch_is_verified_beside_an_ideal(train_shards):
    feeding = FeedingOptions(batch_size=4, **SHARDS)
    found = verify_epoch(train_shards, feeding, seed=2, epoch=1)
    assert found.records == found.draws == len(read_index(train_shards))
    assert found.ideal is not None
    views = FeedingOptions(batch_size=4, many_views={"mirror": True}, **SHARDS)
    found = verify_epoch(train_shards, views, seed=2, epoch=1)
    assert found.draws == 2 * found.records == 2 * len(read_index(train_shards))
    assert found.ideal is None


def test_views_that_would_meet_are_refused(data):
    with pytest.raises(UserError, match=r"many_views never has two views of an image in one batch"):
        opened(data, batch_size=16, many_views={"mirror": True})


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("remainder", ["keep", "pad"])
def test_workers_with_shards_of_their_own_have_the_same_batches(data, workers, remainder):
    options = {"shuffle": "records", "batch_size": 12, "remainder": remainder}
    whole = rows_of(opened(data, **options), epoch=3)
    shares = [
        opened(data, worker=worker, workers=workers, own_shards=True, **options)
        for worker in range(workers)
    ]
    shard = shares[0]._reader.index.shard
    others = 0
    for batch, *parts in zip(whole, *(rows_of(each, epoch=3) for each in shares), strict=True):
        assert sorted(flat(parts)) == sorted(batch)
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        for worker, part in enumerate(parts):
            others += np.count_nonzero(shard[part] % workers != worker)
    # By places, each would read (workers - 1) / workers of its records of others' shards.
    assert others <= len(flat(whole)) * 0.45
    assert (others > 0) == (workers > 1)


def test_evaluation_is_shared_by_places(data):
    for worker in (0, 1):
        options = {"mode": "eval", "worker": worker, "workers": 2, "shuffle": "records"}
        shares = [rows_of(opened(data, own_shards=own, **options)) for own in (False, True)]
        assert shares[0] == shares[1]
