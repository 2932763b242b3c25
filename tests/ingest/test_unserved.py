"""What a served model sees otherwise is counted at ingest's end."""

import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.show.ingest_summary import count_unserved, ingest_rows, summarize_data_set
from tests.images.zoo import save, swapped_profile
from tests.transform.analyze import make_pipeline

pytestmark = pytest.mark.beam


def write_images(folder):
    frames = [Image.new("RGB", (8, 6), color) for color in ("red", "blue", "green")]
    files = {
        "plain.jpg": save(frames[0], "JPEG"),
        "plain.gif": save(frames[0], "GIF", save_all=True, append_images=frames[1:]),
        "still.webp": save(frames[1], "WEBP"),
        "moving.webp": save(frames[2], "WEBP", save_all=True, append_images=frames[:2]),
        "one.tif": save(frames[1], "TIFF"),
        "two.tif": save(np.zeros((5, 5, 3), np.uint8), "TIFF"),
        "profile.png": save(frames[2], "PNG", icc_profile=swapped_profile()),
        "modern.avif": save(frames[2], "AVIF"),
    }
    (folder / "cat").mkdir(parents=True)
    for name, content in files.items():
        (folder / "cat" / name).write_bytes(content)


def test_kinds_that_serving_lacks_are_counted_and_told(tmp_path):
    write_images(tmp_path / "images")
    paths = [str(tmp_path / name) for name in ("images", "data", "work")]
    manifest = run_ingest(*paths, IngestOptions(splits={"all": 1.0}), make_pipeline)
    assert manifest.books.written == 8
    found = count_unserved(paths[1])
    assert found == {"GIF": 1, "TIFF": 2, "AVIF": 1, "animated WebP": 1, "colour profile": 1}
    rows = dict(ingest_rows(summarize_data_set(paths[1])))
    refused = "1 GIF, 2 TIFF, 1 AVIF, 1 animated WebP; send JPEG, PNG or WebP"
    assert rows["a server refuses"] == refused
    assert rows["served differently"] == "1 with a colour profile; send sRGB"


def test_a_data_set_that_serving_sees_as_training_did_says_nothing(tmp_path):
    (tmp_path / "images" / "cat").mkdir(parents=True)
    image = save(Image.new("RGB", (8, 6), "red"), "JPEG")
    (tmp_path / "images" / "cat" / "a.jpg").write_bytes(image)
    paths = [str(tmp_path / name) for name in ("images", "data", "work")]
    run_ingest(*paths, IngestOptions(splits={"all": 1.0}), make_pipeline)
    assert count_unserved(paths[1]) == {}
    assert not [name for name, _ in ingest_rows(summarize_data_set(paths[1])) if "server" in name]
