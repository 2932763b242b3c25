import math

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.batch import Batch
from image_pipeline.components.augment.mix import (
    cutmix,
    draw_shares,
    has_partner,
    mix_labels,
    mixup,
    partner_of,
)
from image_pipeline.components.augment.options import CutMix, Mixup
from tests.augment.ways import make_batch, make_keys, run_in_all_ways

pytestmark = pytest.mark.unit

STEPS = [(mixup, Mixup), (cutmix, CutMix)]


def partner(place, count):
    """The neighbour; the last of an odd batch is its own."""
    return min(place + 1, count - 1) if place % 2 == 0 else place - 1


def drawn_shares(keys, count_drawn, options):
    """What is left of each image, by its numbers; the last of an odd batch stays whole."""
    numbers = draws.uniform(keys, count_drawn)
    shares = draw_shares(numbers[:, 1], options.alpha).numpy().astype(float)
    shares[numbers[:, 0].numpy() >= options.probability] = 1
    shares[[place for place in range(len(shares)) if partner(place, len(shares)) == place]] = 1
    return shares, numbers.numpy().astype(float)


def cut_by_hand(share, row, column, height, width):
    """torchvision's CutMix: the rows and the columns of the partner's rectangle."""
    half = 0.5 * math.sqrt(1 - share)
    row, column = math.floor(row * height), math.floor(column * width)
    half_height, half_width = int(half * height), int(half * width)
    rows = slice(max(row - half_height, 0), min(row + half_height, height))
    return rows, slice(max(column - half_width, 0), min(column + half_width, width))


@pytest.mark.parametrize("count", [1, 6, 7])
@pytest.mark.parametrize("size", [(7, 5, 3), (8, 8, 1)])
@pytest.mark.parametrize("options", [Mixup(), Mixup(alpha=4), Mixup(probability=0.5)])
def test_images_are_blended_with_their_neighbours(options, size, count):
    batch, keys = make_batch(count, *size), make_keys(count, seed=3)
    mixed = run_in_all_ways(mixup, batch, keys, options)
    shares, _ = drawn_shares(keys, 2, options)
    np.testing.assert_array_equal(mixed.own_share, shares.astype(np.float32))
    images = batch.images.numpy().astype(float)
    for place, share in enumerate(shares):
        blend = share * images[place] + (1 - share) * images[partner(place, count)]
        np.testing.assert_array_equal(mixed.images[place], np.round(blend))


@pytest.mark.parametrize("count", [1, 6, 7])
@pytest.mark.parametrize("size", [(7, 5, 3), (8, 8, 1), (20, 31, 3)])
@pytest.mark.parametrize("options", [CutMix(), CutMix(alpha=4), CutMix(probability=0.5)])
def test_a_neighbours_rectangle_is_laid_over_images_and_masks(options, size, count):
    batch, keys = make_batch(count, *size, with_masks=True), make_keys(count, seed=3)
    mixed = run_in_all_ways(cutmix, batch, keys, options)
    shares, numbers = drawn_shares(keys, 4, options)
    for place, share in enumerate(shares):
        rows, columns = cut_by_hand(share, *numbers[place, 2:], *size[:2])
        for before, after in ((batch.images, mixed.images), (batch.masks, mixed.masks)):
            expected = before[place].numpy()
            expected[rows, columns] = before[partner(place, count)].numpy()[rows, columns]
            np.testing.assert_array_equal(after[place], expected)
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        left_over = np.float32(1 - area / (size[0] * size[1]))
        assert mixed.own_share[place] == (left_over if partner(place, count) != place else 1)


@pytest.mark.parametrize(("step", "options"), STEPS)
def test_the_probability_says_how_many_images_are_mixed(step, options):
    batch, keys = make_batch(400, 16, 16), make_keys(400)
    for probability, least, greatest in ((0.0, 0.0, 0.0), (0.4, 0.3, 0.5), (1.0, 0.9, 1.0)):
        mixed = step(batch, keys, options(probability=probability, alpha=1.0))
        is_mixed = (mixed.own_share < 1).numpy()
        assert least <= is_mixed.mean() <= greatest
        changed = (mixed.images != batch.images).numpy().any(axis=(1, 2, 3))
        # A share of 1 - 2**-16 or so may leave every level as it was.
        assert (changed <= is_mixed).all() and is_mixed.sum() - changed.sum() <= 8


@pytest.mark.parametrize(("step", "options"), STEPS)
def test_shares_and_places_hang_on_the_key_only(step, options):
    # Black and white neighbours: the pixels tell the share and the place, whoever is mixed.
    images = np.zeros((40, 8, 8, 3), np.uint8)
    images[1::2] = 255
    keys = make_keys(40)
    first = step(Batch(tf.constant(images)), keys, options(alpha=1.0))
    later = step(Batch(tf.constant(images)), make_keys(40, epoch=1), options(alpha=1.0))
    assert len(np.unique(first.own_share)) > 10
    assert (first.own_share != later.own_share).numpy().mean() > 0.7
    some = step(Batch(tf.constant(images[:6])), keys[10:16], options(alpha=1.0))
    np.testing.assert_array_equal(some.images, first.images[10:16])
    np.testing.assert_array_equal(some.own_share, first.own_share[10:16])


@pytest.mark.parametrize(("step", "options"), STEPS)
def test_the_own_share_says_what_the_pixels_are(step, options):
    images = np.zeros((40, 32, 32, 1), np.uint8)
    images[::2] = 250
    mixed = step(Batch(tf.constant(images)), make_keys(40), options(alpha=1.0))
    bright = mixed.images.numpy().mean(axis=(1, 2, 3)) / 250
    own = np.where(np.arange(40) % 2 == 0, bright, 1 - bright)
    np.testing.assert_allclose(mixed.own_share, own, atol=0.5 / 250)


@pytest.mark.parametrize("first", STEPS)
@pytest.mark.parametrize("second", STEPS)
def test_two_mixings_compose(first, second):
    def mix_twice(batch, keys, _):
        once = first[0](batch, draws.fold(keys, 0), first[1](alpha=1.0))
        return second[0](once, draws.fold(keys, 1), second[1](alpha=1.0))

    batch, keys = make_batch(9), make_keys(9)
    twice = run_in_all_ways(mix_twice, batch, keys, None)
    before = first[0](batch, draws.fold(keys, 0), first[1](alpha=1.0)).own_share.numpy()
    alone = second[0](batch, draws.fold(keys, 1), second[1](alpha=1.0)).own_share.numpy()
    for place in range(8):
        own, partners = float(before[place]), float(before[partner(place, 9)])
        expected = alone[place] * own + (1 - float(alone[place])) * (1 - partners)
        assert twice.own_share[place] == pytest.approx(expected, abs=1e-7)
    assert twice.own_share[8] == 1
    np.testing.assert_array_equal(twice.images[8], batch.images[8])


def test_pixels_and_shares_stay_together_through_two_mixups():
    images = np.zeros((40, 8, 8, 1), np.uint8)
    images[::2] = 250
    once = mixup(Batch(tf.constant(images)), make_keys(40), Mixup(alpha=1.0))
    twice = mixup(once, make_keys(40, seed=1), Mixup(alpha=1.0))
    bright = twice.images.numpy().mean(axis=(1, 2, 3)) / 250
    own = np.where(np.arange(40) % 2 == 0, bright, 1 - bright)
    np.testing.assert_allclose(twice.own_share, own, atol=1 / 250)


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.4, 1.0, 4.0, 32.0])
def test_shares_are_spread_by_the_beta_distribution(alpha):
    numbers = draws.uniform(make_keys(1), 200_000)[0]
    shares = draw_shares(numbers, alpha).numpy().astype(float)
    assert shares.min() >= 0 and shares.max() <= 1
    np.testing.assert_array_equal(shares * 2**16, np.round(shares * 2**16))
    assert shares.mean() == pytest.approx(0.5, abs=0.004)
    assert shares.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.01)
    # Shares are multiples of 2**-16, of which for a small alpha many are 0. So Kolmogorov and
    # Smirnov's test compares the distribution functions half-way between the multiples.
    edges = (np.arange(2**16) + 0.5) / 2**16
    counts = np.bincount(np.round(shares * 2**16).astype(int), minlength=2**16 + 1)
    found = np.cumsum(counts)[:-1] / len(shares)
    distance = np.abs(found - scipy.stats.beta.cdf(edges, alpha, alpha)).max()
    # 0.0005 is half a step of the table, between whose points a share is interpolated.
    assert scipy.stats.kstwo.sf(max(distance - 0.0005, 0), len(shares)) > 0.01


def test_extreme_parameters_give_shares():
    numbers = draws.uniform(make_keys(1), 1000)[0]
    halves = draw_shares(numbers, 1e6).numpy()
    assert 0.0005 < np.abs(halves - 0.5).max() < 0.002  # a standard deviation is 0.00035
    wholes = draw_shares(numbers, 1e-3).numpy()
    assert ((wholes < 0.001) | (wholes > 0.999)).mean() > 0.95


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_shares_grow_with_the_number_from_0_to_1(alpha):
    numbers = tf.constant(np.linspace(0, 1 - 2**-24, 5001, dtype=np.float32))
    shares = draw_shares(numbers, alpha).numpy()
    assert shares[0] == 0 and shares[-1] >= 1 - 2**-16 and (np.diff(shares) >= 0).all()
    assert shares[2500] == pytest.approx(0.5, abs=1e-3)


def test_masks_and_boxes_that_cannot_be_mixed_are_refused():
    masks = make_batch(2, with_masks=True)
    boxes = make_batch(2, boxes=[[0.0, 0.0, 1.0, 1.0]])
    with pytest.raises(ValueError, match=r"mixup needs images without masks.*use cutmix"):
        mixup(masks, make_keys(2), Mixup())
    with pytest.raises(ValueError, match=r"mixup needs images without boxes.*leave mixup out"):
        mixup(boxes, make_keys(2), Mixup())
    with pytest.raises(ValueError, match=r"cutmix needs images without boxes.*leave cutmix out"):
        cutmix(boxes, make_keys(2), CutMix())


@pytest.mark.parametrize("compiled", [False, True])
def test_labels_are_shared_with_the_partner(compiled):
    class_ids = tf.constant([0, 2, 1, 1, -1, 0, 2], tf.int64)
    own_share = tf.constant([0.75, 0.5, 0.3, 0.6, 0.25, 0.25, 1.0])
    mix = tf.function(mix_labels, jit_compile=True) if compiled else mix_labels
    expected = [
        [0.75, 0, 0.25],
        [0.5, 0, 0.5],
        [0, 1, 0],
        [0, 1, 0],
        [0.75, 0, 0],  # has no class of its own
        [0.25, 0, 0],  # nor has its partner
        [0, 0, 1],  # has no partner
    ]
    labels = mix(class_ids, own_share, 3)
    assert labels.dtype == tf.float32
    np.testing.assert_array_equal(labels, np.array(expected, np.float32))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, []), (1, [0]), (2, [1, 0]), (5, [1, 0, 3, 2, 4]), (6, [1, 0, 3, 2, 5, 4])],
)
def test_neighbours_are_partners(count, expected, compiled):
    function = tf.function(lambda values: (partner_of(values), has_partner(values)))
    if compiled:
        function = tf.function(function.python_function, jit_compile=True)
    partners, have_one = function(tf.range(count))
    assert partners.numpy().tolist() == expected
    assert have_one.numpy().tolist() == [number != each for number, each in enumerate(expected)]


def test_values_of_any_shape_and_type_are_given():
    values = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    np.testing.assert_array_equal(partner_of(tf.constant(values)), values[[1, 0, 2]])
    assert partner_of(tf.constant(["a", "b"])).numpy().tolist() == [b"b", b"a"]


def test_the_batch_size_may_be_unknown():
    numbers = tf.data.Dataset.range(7).batch(4).map(partner_of)
    assert [part.tolist() for part in numbers.as_numpy_iterator()] == [[1, 0, 3, 2], [5, 4, 6]]


def test_shares_of_a_batch_cut_at_even_places_have_the_same_partners():
    values = tf.range(10)
    parts = [partner_of(values[start : start + 4]) for start in (0, 4, 8)]
    np.testing.assert_array_equal(tf.concat(parts, axis=0), partner_of(values))
