import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from components import views
from components.feeding import augment, parse
from components.feeding.options import AugmentOptions
from components.view_options import ViewOptions
from tests import shards

pytestmark = pytest.mark.unit

VIEW = ViewOptions(height_px=8, width_px=8)
PLAIN = AugmentOptions(flip=False, random_resized_crop=False)
# Traced once for every options value, and run many times: as inside tf.data.
draw_window = tf.function(augment.random_crop_window, reduce_retracing=True)


def parsed(image, image_format="png"):
    return parse.parse_record(
        shards.make_example(image, image_format=image_format), parse.IMAGE_COLUMNS
    )


def views_of(options, count=12, image_format="png", view=VIEW):
    """Views of one image for the seeds (7, 0), (7, 1) …: uint8 [count, height, width, channels]."""
    features = parsed(shards.draw_image(3), image_format)
    make = tf.function(lambda seed: augment.train_view(features, seed, view, options))
    return np.stack([make(tf.constant([7, number], tf.int64)) for number in range(count)])


@settings(deadline=None, max_examples=150)
@given(
    size=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    seed=st.integers(0, 2**31),
    options=st.sampled_from(
        [
            AugmentOptions(),
            AugmentOptions(crop_area=(0.5, 0.6), crop_aspect=(0.9, 1.1)),
            AugmentOptions(crop_area=(1.0, 1.0), crop_aspect=(1.0, 1.0)),
        ]
    ),
)
def test_windows_lie_inside_and_keep_the_bounds(size, seed, options):
    image_height, image_width = size
    window = draw_window(tf.constant(size), tf.constant([seed, 1]), options)
    top, left, height, width = window.numpy().tolist()
    assert 0 <= top <= top + height <= image_height
    assert 0 <= left <= left + width <= image_width
    assert height >= 1 and width >= 1
    if (height, width) == fallback_size(size, options.crop_aspect):
        return  # may be the fallback, whose area is not bound
    # Height and width are each rounded by up to half a pixel.
    least, most = options.crop_aspect
    assert (width + 0.5) / (height - 0.5) >= least and (width - 0.5) / (height + 0.5) <= most
    least, most = (share * image_height * image_width for share in options.crop_area)
    assert (height + 0.5) * (width + 0.5) >= least and (height - 0.5) * (width - 0.5) <= most


def fallback_size(size, aspect_bounds):
    """torchvision.transforms.RandomResizedCrop.get_params, its last paragraph."""
    height, width = size
    if width / height < min(aspect_bounds):
        return max(1, min(height, round(width / min(aspect_bounds)))), width
    if width / height > max(aspect_bounds):
        return height, max(1, min(width, round(height * max(aspect_bounds))))
    return height, width


@pytest.mark.parametrize(
    ("size", "expected"), [((100, 10), [43, 0, 13, 10]), ((10, 100), [0, 43, 10, 13])]
)
def test_an_image_too_narrow_for_any_crop_gives_the_central_fallback(size, expected):
    options = AugmentOptions(crop_area=(0.9, 1.0))
    window = draw_window(tf.constant(size), tf.constant([0, 0]), options)
    assert window.numpy().tolist() == expected


def test_corners_are_drawn_evenly():
    options = AugmentOptions(crop_area=(0.25, 0.25), crop_aspect=(1.0, 1.0))
    seeds = tf.stack([tf.range(600), tf.zeros(600, tf.int32)], axis=1)
    draw = tf.function(lambda seed: augment.random_crop_window(tf.constant([4, 4]), seed, options))
    windows = tf.map_fn(draw, seeds).numpy()
    assert (windows[:, 2:] == 2).all()
    corners, counts = np.unique(windows[:, :2], axis=0, return_counts=True)
    assert corners.tolist() == [[top, left] for top in range(3) for left in range(3)]
    assert counts.min() > 40 and counts.max() < 100  # 66.7 expected, standard deviation 7.7


def test_areas_are_uniform_and_aspects_log_uniform():
    options = AugmentOptions(crop_area=(0.2, 0.6), crop_aspect=(0.5, 2.0))
    sizes = augment._draw_crop_sizes(tf.constant([1e4, 1e4], tf.float64), [1, 2], options).numpy()
    area, log_aspect = sizes.prod(axis=1) / 1e8, np.log(sizes[:, 1] / sizes[:, 0])
    assert ((area > 0.199) & (area < 0.601)).all()
    assert (np.abs(log_aspect) < math.log(2) + 1e-3).all()
    assert len(set(area)) == len(set(log_aspect)) == augment.CROP_TRIES


@pytest.mark.parametrize("image_format", ["jpeg", "png", "raw"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_decoded_window_equals_decoding_then_cropping(image_format, channels):
    features = parsed(shards.draw_image(1, 40, 56), image_format)
    decode = tf.function(augment.decode_window, autograph=False)
    window = decode(features, tf.constant([3, 17, 20, 30]), channels)
    whole = parse.decode_record(features, channels)
    np.testing.assert_array_equal(window, whole[3:23, 17:47])


def test_the_same_seed_gives_the_same_view_and_another_seed_another():
    first, again = views_of(AugmentOptions()), views_of(AugmentOptions())
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first, axis=0)) == len(first)


def test_without_random_steps_the_view_is_the_eval_view():
    expected = views.eval_view(tf.constant(shards.draw_image(3)), VIEW)
    for view in views_of(PLAIN, count=3):
        np.testing.assert_array_equal(view, expected)


def test_flip_mirrors_about_half_of_the_views_and_nothing_else():
    plain = views_of(PLAIN, count=1)[0]
    flipped = views_of(AugmentOptions(flip=True, random_resized_crop=False), count=40)
    mirrored = [np.array_equal(view, plain[:, ::-1]) for view in flipped]
    unchanged = [np.array_equal(view, plain) for view in flipped]
    assert sum(mirrored) + sum(unchanged) == 40
    assert 10 <= sum(mirrored) <= 30


def test_flip_can_be_switched_off():
    # The pixel values of this image grow to the right, so a mirrored crop would fall.
    ramp = np.broadcast_to(np.arange(16, dtype=np.uint8)[None, :, None] * 10, (12, 16, 3)).copy()
    for flip, expected in ((False, {True}), (True, {True, False})):
        options = AugmentOptions(flip=flip, crop_area=(0.5, 1.0))
        seen = {
            bool(view[0, -1, 0] > view[0, 0, 0])
            for seed in range(20)
            for view in [augment.train_view(parsed(ramp), tf.constant([seed, 0]), VIEW, options)]
        }
        assert seen == expected


def test_crop_area_and_aspect_change_the_view():
    whole = AugmentOptions(flip=False, crop_area=(1.0, 1.0), crop_aspect=(4 / 3, 4 / 3))
    small = AugmentOptions(flip=False, crop_area=(0.1, 0.1), crop_aspect=(4 / 3, 4 / 3))
    narrow = AugmentOptions(flip=False, crop_area=(0.1, 0.1), crop_aspect=(0.3, 0.3))
    expected = views.resize(tf.constant(shards.draw_image(3)), tf.constant([8, 8]), antialias=False)
    np.testing.assert_array_equal(views_of(whole, count=1)[0], expected)
    assert (
        views_of(small, 1).tolist() != views_of(narrow, 1).tolist() != views_of(whole, 1).tolist()
    )


def test_a_records_seed_hangs_on_run_epoch_and_record():
    def seed(run, epoch, source_id):
        return tuple(augment.record_seed(run, tf.constant(epoch), tf.constant(source_id)).numpy())

    seeds = {seed(run, epoch, name) for run in (0, 1) for epoch in (0, 1) for name in ("a", "b")}
    assert len(seeds) == 8
    assert seed(0, 1, "a") != seed(1, 0, "a")
    assert seed(3, 4, "a") == seed(3, 4, "a")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"crop_area": (0.5, 0.2)}, r"the lesser first, got \[0.5, 0.2\]; set augment.crop_area"),
        ({"crop_area": (0.0, 1.0)}, r"must be two positive numbers"),
        ({"crop_area": (0.5, 1.5)}, r"at most 1, got 1.5; set augment.crop_area"),
        ({"crop_aspect": (2, 1)}, r"the lesser first, got \[2.0, 1.0\]; set augment.crop_aspect"),
    ],
)
def test_impossible_bounds_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        AugmentOptions(**values)
