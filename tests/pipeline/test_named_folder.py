"""What commands that look at results say of names that are none."""

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.named_folder import find_source

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("images", ["generator:my_data:records", "source:my_data:open_photos"])
def test_images_that_code_makes_are_no_data_set(images):
    with pytest.raises(UserError, match=f"{images}' is where images come from, but only what was"):
        find_source(images)
