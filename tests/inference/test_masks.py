"""Where predicted masks are written."""

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.inference.masks import MaskFolder, name_mask

pytestmark = pytest.mark.unit


def test_a_mask_takes_the_place_of_its_image_below_the_folder(tmp_path):
    folder = MaskFolder(str(tmp_path), {"mask_bytes"})
    told = folder.take({"file": "photos/../a.jpg", "confidence": 0.5, "mask_bytes": b"PNG"})
    path = tmp_path / "photos" / "_" / "a.jpg.png"
    assert told == {"file": "photos/../a.jpg", "confidence": 0.5, "mask": str(path)}
    assert path.read_bytes() == b"PNG"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/data/a.jpg", "data/a.jpg.png"),
        ("../../a.jpg", "_/_/a.jpg.png"),
        ("gs://bucket/x/a.jpg", "bucket/x/a.jpg.png"),
        ("./a.png", "a.png.png"),
    ],
)
def test_no_name_leads_out_of_the_folder(file, name):
    assert name_mask(file) == name


def test_without_a_folder_nothing_is_written():
    assert MaskFolder(None, {"mask_bytes"}).take({"file": "a", "mask_bytes": b""}) == {"file": "a"}


def test_a_folder_for_masks_of_a_model_that_gives_none_is_refused(tmp_path):
    with pytest.raises(UserError, match="--output is for masks, but the model gives none"):
        MaskFolder(str(tmp_path), {"probabilities"})
