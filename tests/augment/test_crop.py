import math

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_pipeline.components.augment.keys import CROP_TRIES, draw_crop_windows, fold, uniform
from image_pipeline.components.augment.options import (
    ColorJitter,
    RandomErasing,
    RandomResizedCrop,
)

pytestmark = pytest.mark.unit


def make_keys(count, seed=0):
    return fold(np.full(count, seed, np.uint64), np.arange(count))


@given(
    size=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    seed=st.integers(0, 2**63),
    options=st.sampled_from(
        [
            RandomResizedCrop(),
            RandomResizedCrop(area=(0.5, 0.6), aspect=(0.9, 1.1)),
            RandomResizedCrop(area=(1.0, 1.0), aspect=(1.0, 1.0)),
        ]
    ),
)
def test_windows_lie_inside_and_keep_the_bounds(size, seed, options):
    image_height, image_width = size
    windows = draw_crop_windows(np.array([size] * 8), make_keys(8, seed), options)
    for top, left, height, width in windows.tolist():
        assert 0 <= top <= top + height <= image_height
        assert 0 <= left <= left + width <= image_width
        assert height >= 1 and width >= 1
        if (height, width) == fallback_size(size, options.aspect):
            continue  # may be the fallback, whose area is not bound
        # Height and width are each rounded by up to half a pixel.
        least, most = options.aspect
        assert (width + 0.5) / (height - 0.5) >= least and (width - 0.5) / (height + 0.5) <= most
        least, most = (share * image_height * image_width for share in options.area)
        assert (height + 0.5) * (width + 0.5) >= least and (height - 0.5) * (width - 0.5) <= most


def fallback_size(size, aspect_bounds):
    """torchvision.transforms.RandomResizedCrop.get_params, its last paragraph."""
    height, width = size
    if width / height < min(aspect_bounds):
        return max(1, min(height, round(width / min(aspect_bounds)))), width
    if width / height > max(aspect_bounds):
        return height, max(1, min(width, round(height * max(aspect_bounds))))
    return height, width


def draw_by_torchvisions_loop(size, uniforms, options):
    """torchvision.transforms.RandomResizedCrop.get_params, with our random numbers."""
    height, width = size
    low, high = (math.log(aspect) for aspect in options.aspect)
    least, most = options.area
    for n in range(CROP_TRIES):
        area = height * width * (least + float(uniforms[n]) * (most - least))
        aspect = math.exp(low + float(uniforms[CROP_TRIES + n]) * (high - low))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            top = math.floor(float(uniforms[-2]) * (height - h + 1))
            left = math.floor(float(uniforms[-1]) * (width - w + 1))
            return [top, left, h, w]
    h, w = fallback_size(size, options.aspect)
    return [(height - h) // 2, (width - w) // 2, h, w]


@pytest.mark.parametrize(
    "options", [RandomResizedCrop(), RandomResizedCrop(area=(0.6, 1.0), aspect=(0.5, 2.0))]
)
def test_a_batch_is_drawn_as_torchvisions_loop_draws_each_image(options):
    sizes = np.random.default_rng(0).integers(4, 400, (200, 2))
    keys = make_keys(200)
    uniforms = uniform(keys, 2 * CROP_TRIES + 2)
    expected = [
        draw_by_torchvisions_loop(size, drawn, options)
        for size, drawn in zip(sizes.tolist(), uniforms, strict=True)
    ]
    assert draw_crop_windows(np.array(sizes), keys, options).tolist() == expected


@pytest.mark.parametrize(
    ("size", "expected"), [((100, 10), [43, 0, 13, 10]), ((10, 100), [0, 43, 10, 13])]
)
def test_an_image_too_narrow_for_any_crop_gives_the_central_fallback(size, expected):
    options = RandomResizedCrop(area=(0.9, 1.0))
    window = draw_crop_windows(np.array([size]), make_keys(1), options)
    assert window.tolist() == [expected]


def test_corners_are_drawn_evenly():
    options = RandomResizedCrop(area=(0.25, 0.25), aspect=(1.0, 1.0))
    windows = draw_crop_windows(np.array([[4, 4]] * 600), make_keys(600), options)
    assert (windows[:, 2:] == 2).all()
    corners, counts = np.unique(windows[:, :2], axis=0, return_counts=True)
    assert corners.tolist() == [[top, left] for top in range(3) for left in range(3)]
    assert counts.min() > 40 and counts.max() < 100  # 66.7 expected, standard deviation 7.7


def test_the_means_of_area_and_aspect_are_torchvisions():
    # Photos lie and stand, three to one: then torchvision keeps 0.43 of the area on average, at a
    # width / height of 1.03.
    sizes = [[375, 500]] * 15_000 + [[500, 375]] * 5_000
    windows = draw_crop_windows(np.array(sizes), make_keys(20_000), RandomResizedCrop())
    heights, widths = windows[:, 2].astype(float), windows[:, 3]
    assert (heights * widths / (375 * 500)).mean() == pytest.approx(0.43, abs=0.01)
    assert (widths / heights).mean() == pytest.approx(1.03, abs=0.005)


def test_each_bound_changes_the_windows():
    sizes, keys = np.array([[90, 120]] * 20), make_keys(20)
    default = draw_crop_windows(sizes, keys, RandomResizedCrop())
    for changed in (RandomResizedCrop(area=(0.5, 1.0)), RandomResizedCrop(aspect=(1.0, 1.0))):
        assert (draw_crop_windows(sizes, keys, changed) != default).any()


@pytest.mark.parametrize("step", [RandomResizedCrop, RandomErasing])
@pytest.mark.parametrize("name", ["area", "aspect"])
@pytest.mark.parametrize("bounds", [(0, 0.5), (-1, 0.5), (0.5, 0.1)])
def test_bounds_must_be_positive_and_in_order(step, name, bounds):
    rule = rf"{name} must be two positive numbers, the lesser first, got \["
    with pytest.raises(pydantic.ValidationError, match=rule):
        step(**{name: bounds})


@pytest.mark.parametrize("step", [RandomResizedCrop, RandomErasing])
def test_an_area_is_a_share(step):
    with pytest.raises(pydantic.ValidationError, match=r"area is a share .* at most 1, got 1\.5\."):
        step(area=(0.5, 1.5))


def test_steps_are_frozen():
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        ColorJitter().hue = 0.1
