"""What commands that look at results say of names that are none."""

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.named_folder import find_source
from tests.data_set_files import write_tfrecord

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("images", ["generator:my_data:records", "source:my_data:open_photos"])
def test_images_that_code_makes_are_no_data_set(images):
    with pytest.raises(UserError, match=f"{images}' is where images come from, but only what was"):
        find_source(images)


def test_records_of_another_program_are_no_data_set(tmp_path):
    (tmp_path / "Split-train").mkdir()
    write_tfrecord(tmp_path / "Split-train" / "data_tfrecord-00000-of-00001.gz", [{"n": 1}])
    with pytest.raises(UserError, match=f"ingest --images tfrecord:{tmp_path} --output data"):
        find_source(str(tmp_path))
