"""The analysis as a whole, over a data set that ingest wrote."""

import json

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from components.beam_args import LOCAL_BEAM_ARGS
from components.errors import UserError
from components.feeding.options import ViewOptions
from components.ingest.options import IngestOptions
from components.ingest.run import run_ingest
from components.transform.analysis import check_records
from components.transform.options import TransformOptions
from components.transform.run import list_shards, run_analysis
from tests.drawings import write_folder

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=10)


def _pipeline():
    return beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS)))


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    images = write_folder(folder / "images", per_class=30)
    options = IngestOptions.model_validate(
        {"prepare": {"encoding": "png"}, "splits": {"train": 0.6, "eval": 0.4}, "shards": 3}
    )
    run_ingest(str(images), str(folder / "out"), str(folder / "work"), options, _pipeline)
    return folder / "out"


def _pixels(examples, splits):
    import tensorflow as tf

    stored = [
        tf.io.decode_png(
            tf.io.parse_single_example(
                data, {"image/encoded": tf.io.FixedLenFeature([], tf.string)}
            )["image/encoded"]
        ).numpy()
        for split in splits
        for data in tf.data.TFRecordDataset(sorted(map(str, examples.glob(f"Split-{split}/*"))))
    ]
    return np.stack(stored).astype(np.float64)


@pytest.mark.parametrize("splits", [("train",), ("train", "eval")])
def test_statistics_are_those_of_the_splits_asked_for(examples, tmp_path, splits):
    options = TransformOptions(analyze_splits=splits, batch_size=7)
    summary = run_analysis(str(examples), str(tmp_path), VIEW, options, _pipeline)
    pixels = _pixels(examples, splits)
    assert summary["records"] == len(pixels)
    np.testing.assert_allclose(summary["statistics"]["mean"], pixels.mean((0, 1, 2)), rtol=1e-14)
    np.testing.assert_allclose(summary["statistics"]["std"], pixels.std((0, 1, 2)), rtol=1e-12)
    assert json.loads((tmp_path / "analysis.json").read_text())["splits"] == list(splits)


def test_an_unknown_split_is_the_users_error(examples):
    with pytest.raises(
        UserError, match=r"names \['test'\], but the data set has \['train', 'eval'\]"
    ):
        list_shards(str(examples), ("train", "test"))


def test_a_lost_record_is_noticed():
    assert check_records(7, 7) == 7
    with pytest.raises(RuntimeError, match="Stage ReadViews lost records: 8 in, 7 out"):
        check_records(7, 8)
