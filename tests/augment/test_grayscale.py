import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.augment import draws
from image_pipeline.components.augment.color import grayscale
from image_pipeline.components.augment.options import Grayscale
from tests.augment.ways import make_batch, make_keys, run_in_all_ways

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_chosen_images_are_pillows_gray_and_the_others_as_they_were(probability):
    batch, keys = make_batch(30), make_keys(30)
    after = run_in_all_ways(grayscale, batch, keys, Grayscale(probability=probability)).images
    chosen = draws.uniform(keys, 1)[:, 0].numpy() < probability
    for image, gray, is_chosen in zip(batch.images.numpy(), after, chosen, strict=True):
        expected = Image.fromarray(image)
        expected = expected.convert("L").convert("RGB") if is_chosen else expected
        np.testing.assert_array_equal(gray, np.asarray(expected))
    assert {0.0: 0, 1.0: 30}.get(probability, chosen.sum()) == chosen.sum()
    assert probability != 0.3 or 3 < chosen.sum() < 17


def test_one_channel_stays_as_it_is():
    batch = make_batch(4, channels=1)
    after = run_in_all_ways(grayscale, batch, make_keys(4), Grayscale(probability=1))
    np.testing.assert_array_equal(after.images, batch.images)
