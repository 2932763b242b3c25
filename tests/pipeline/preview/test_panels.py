import numpy as np
import pytest

from image_pipeline.preview import panels
from tests.pipeline.preview.test_plots import make_views

pytestmark = pytest.mark.unit


def test_the_mean_is_mid_grey_and_extremes_are_clipped():
    pixels = np.array([-99, -2.5, 0, 1.25, 2.5, 99], np.float32)
    np.testing.assert_allclose(panels.scale_to_display(pixels), [0, 0, 0.5, 0.75, 1, 1])


def test_panels_come_in_their_order_with_shares_only_where_images_are_mixed():
    made = panels.make_panels(make_views(epochs=2))
    assert [(panel.title, panel.captions) for panel in made] == [
        ("stored", ("16×12",)),
        ("eval", ("8×8",)),
        ("train, epoch 0", ("0.75 × cat", "0.25 × dog")),
        ("train, epoch 1", ()),
        ("model's input", ("mid-grey: the mean",)),
    ]


@pytest.mark.parametrize("channels", [1, 3])
def test_small_views_are_magnified_by_whole_pixels(channels):
    views = make_views(channels=channels)
    shown = panels.make_panels(views)[1].pixels
    assert shown.shape == (128, 128, 3)
    np.testing.assert_array_equal(shown[::16, ::16], np.broadcast_to(views.eval, (8, 8, 3)))
    np.testing.assert_array_equal(shown, shown[::16, ::16].repeat(16, 0).repeat(16, 1))


def test_dark_pictures_stay_dark():
    shown = panels.fit(np.full((4, 4, 1), 3, np.uint8), 8, 8)
    assert (shown == 3).all() and shown.shape == (8, 8, 3)


@pytest.mark.parametrize(
    ("shape", "box"),
    [
        ((8, 8), (128, 128)),
        ((28, 20), (140, 100)),
        ((128, 100), (128, 100)),
        ((256, 200), (256, 200)),
        ((400, 512), (200, 256)),
        ((1, 2000), (1, 256)),
    ],
)
def test_views_of_128_to_256_pixels_are_shown_as_they_are(shape, box):
    assert panels.box_size(shape) == box


def test_large_images_shrink_into_the_box_with_their_aspect():
    assert panels.fit(np.zeros((500, 1000, 3), np.uint8), 200, 200).shape == (100, 200, 3)
    assert panels.fit(np.zeros((1, 9000, 3), np.uint8), 200, 200).shape == (1, 200, 3)
