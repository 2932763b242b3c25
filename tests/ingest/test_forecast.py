"""A forecast is near what the ingest then stores."""

import io
from typing import get_args

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from PIL import Image

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.prepare import Encoding
from image_pipeline.components.ingest.forecast import forecast_ingest
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from tests.drawings import write_folder

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """300 noisy pictures of 20 to 160 px, most of them small."""
    folder = tmp_path_factory.mktemp("forecast") / "images"
    generator = np.random.default_rng(0)
    for number in range(300):
        side = int(20 + 140 * generator.random() ** 3)
        smooth = generator.integers(0, 256, (4, 4, 3), np.uint8)
        picture = Image.fromarray(smooth).resize((side, side))
        file = io.BytesIO()
        picture.save(file, "JPEG" if number % 3 else "PNG")
        path = folder / f"class{number % 4}" / f"{number:03d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.getvalue())
    return folder


@pytest.mark.parametrize("encoding", get_args(Encoding))
def test_stored_bytes_are_within_15_percent_of_the_ingest(images, tmp_path, encoding):
    options = IngestOptions(
        prepare={"encoding": encoding, "size_px": 64}, splits={"train": 0.7, "eval": 0.3}
    )
    forecast = forecast_ingest(str(images), options, sample_size=80)
    manifest = run_ingest(
        str(images),
        str(tmp_path / "out"),
        str(tmp_path / "work"),
        options,
        lambda: beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS))),
    )
    stored = sum(split.bytes for split in manifest.splits.values())
    assert forecast.stored_bytes[encoding] == pytest.approx(stored, rel=0.15)
    assert forecast.records == manifest.books.written
    assert forecast.shards == {n: len(s.shards) for n, s in manifest.splits.items()}
    assert forecast.seconds > 0
    assert forecast.peak_disk_bytes > 1.5 * stored


def test_a_sample_of_all_files_is_exact(tmp_path):
    images = write_folder(tmp_path / "images", per_class=12)
    options = IngestOptions(prepare={"encoding": "png"}, splits={"train": 0.5, "eval": 0.5})
    forecast = forecast_ingest(str(images), options, sample_size=1000)
    manifest = run_ingest(
        str(images),
        str(tmp_path / "out"),
        str(tmp_path / "work"),
        options,
        lambda: beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS))),
    )
    stored = sum(split.bytes for split in manifest.splits.values())
    assert forecast.stored_bytes["png"] == stored
    assert (forecast.error_fraction, forecast.sampled) == (0, 24)
    assert forecast.classes == {"cat": 12, "dog": 12}


def test_bad_files_are_counted_with_reasons_and_examples(tmp_path):
    images = write_folder(tmp_path / "images", per_class=15)
    for number in range(10):
        (images / "cat" / f"bad{number}.png").write_bytes(b"x" * 200)
    forecast = forecast_ingest(str(images), IngestOptions(), sample_size=1000)
    assert forecast.bad_fraction == pytest.approx(10 / 40)
    assert forecast.records == 30
    bad = forecast.bad_reasons["not_an_image"]
    assert bad["sampled"] == 10 and bad["path"].startswith("cat/bad")


def test_what_is_skipped_is_no_bad_file(tmp_path):
    images = write_folder(tmp_path / "images", per_class=15)
    (images / "cat" / "bad.png").write_bytes(b"x" * 200)
    for number in range(10):
        (images / "cat" / f"note{number}.txt").write_text("a note")
    forecast = forecast_ingest(str(images), IngestOptions(), sample_size=1000)
    assert (forecast.found, forecast.records) == (41, 30)
    assert forecast.bad_fraction == pytest.approx(1 / 31)
    assert list(forecast.bad_reasons) == ["not_an_image"]
    assert forecast.skipped_kinds["text"]["sampled"] == 10


def test_the_options_change_the_forecast(images):
    def forecast(**options):
        return forecast_ingest(str(images), IngestOptions.model_validate(options), 40)

    plain = forecast()
    small = forecast(prepare={"size_px": 20, "jpeg_quality": 50})
    assert small.stored_bytes["raw"] < plain.stored_bytes["raw"]
    assert small.stored_bytes["jpeg"] < plain.stored_bytes["jpeg"]
    assert forecast(shards=7).shards == {"train": 7, "eval": 7}
    assert sum(forecast(shard_bytes=20_000).shards.values()) > 5
    assert forecast(prepare={"encoding": "raw"}).peak_disk_bytes > plain.peak_disk_bytes


def test_paths_that_name_the_split_decide_its_size(images):
    pattern = r"(?P<split>class)?"
    options = IngestOptions(
        split_pattern=pattern, splits={"class": 0.5, "eval": 0.5}, shard_bytes=10_000
    )
    shards = forecast_ingest(str(images), options, 40).shards
    assert shards["eval"] <= 1 < shards["class"]


@pytest.mark.parametrize(("make", "message"), [(False, "does not exist"), (True, "holds no files")])
def test_nothing_to_forecast_is_explained(tmp_path, make, message):
    if make:
        (tmp_path / "images").mkdir()
    with pytest.raises(UserError, match=message):
        forecast_ingest(str(tmp_path / "images"), IngestOptions())
