import numpy as np
import pytest
from PIL import Image

from image_pipeline.named_folder import find_whole_run
from image_pipeline.report.data_set import open_data_set
from image_pipeline.report.shapes import describe_shapes
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam


def test_sizes_formats_and_orientations(data):
    shapes = describe_shapes(data)
    assert dict(shapes.sizes) == {"10 × 8": 20, "12 × 20": 1, "96 × 72": 1, "192 × 144": 1}
    assert shapes.sizes[0] == ("10 × 8", 20)
    assert shapes.formats == [("png", 22), ("jpeg", 1)]
    assert shapes.stored_formats == [("png", 23)]
    assert shapes.orientations == [("upright", 22), ("turned by 90°", 1)]
    assert shapes.channels == [("3, colour", 23)]
    side, aspect = shapes.shorter_side, shapes.aspect
    assert (side.min, side.median, side.max) == (8, 8, 144)
    assert (aspect.min, aspect.max) == (12 / 20, 192 / 144)
    assert sum(side.counts) == 23


def test_channels_are_those_of_the_sources_and_no_oddity(tmp_path):
    images = tmp_path / "images" / "any"
    images.mkdir(parents=True)
    pixels = np.arange(64 * 4, dtype=np.uint8).reshape(8, 8, 4)
    for mode in ("L", "LA", "RGB", "RGBA"):
        Image.fromarray(pixels).convert(mode).save(images / f"{mode}.png")
    Image.fromarray(pixels[..., :3]).convert("CMYK").save(images / "CMYK.jpg")
    ingest(images.parent, tmp_path / "data")
    source = find_whole_run(str(tmp_path / "data"))
    shapes = describe_shapes(open_data_set(source.data_dir, source.manifest))
    assert sorted(shapes.channels) == [
        ("1, gray", 1),
        ("2, gray with transparency", 1),
        ("3, colour", 1),
        ("4, colour with transparency", 1),
        ("4, print colours (CMYK)", 1),
    ]
    assert shapes.notes == [("alpha", 2), ("cmyk", 1)]
