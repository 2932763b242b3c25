"""Statistics from sums that are made beside the graph: those of the graph, to the last bit."""

import json

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.transform import moments, run
from image_pipeline.components.transform.moments import channel_mean_and_std, mean_image
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.preprocessing import standardize
from image_pipeline.components.transform.record_batches import Wanted
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.transform.statistics import name_statistic
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import write_folder
from tests.ingest_runs import ingest
from tests.transform.analyze import make_pipeline

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=6, width_px=7)


def standardize_and_more(inputs):
    """Takes the sums and the pixels, and once more the sums, of other pixels by the graph."""
    outputs = standardize(inputs)
    images = inputs[contract.IMAGE_INPUT]
    mean = tf.cast(images, tf.float32) - tf.cast(mean_image(images), tf.float32)
    inverse, _ = channel_mean_and_std(255 - inputs[contract.IMAGE_INPUT])
    inverse = name_statistic("inverse_mean", inverse)
    image = outputs[contract.IMAGE_OUTPUT] + mean + tf.cast(inverse, tf.float32)
    return {contract.IMAGE_OUTPUT: image, contract.LABEL_OUTPUT: outputs[contract.LABEL_OUTPUT]}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for shards in (1, 3):
        images = write_folder(folder / f"images-{shards}", per_class=20)
        ingest(images, folder / f"{shards}", shards=shards, splits={"train": 1.0})
    return folder


def _analyze(data, folder, batch_size=64, function=None, cache_dir=None):
    options = {"batch_size": batch_size}
    if function is not None:
        options["preprocessing_fn"] = f"{__name__}.{function.__name__}"
    folders = [str(each) for each in ([data] if not isinstance(data, list) else data)]
    options = TransformOptions.model_validate(options)
    return run_analysis(folders, str(folder), VIEW, options, make_pipeline, cache_dir)


def _bits(folder):
    """What the graph makes of some images, and what is known of all, without what names the run."""
    images = np.random.default_rng(0).integers(0, 256, (9, 6, 7, 3), np.uint8)
    known = json.loads((folder / "analysis.json").read_text())
    del known["manifests"]
    return known, TransformGraph(str(folder)).transform_images(tf.constant(images)).numpy()


def _assert_same(one, other):
    assert one[0] == other[0]
    np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.wide
def test_sharding_batches_and_where_sums_are_made_change_no_bit(data, tmp_path, monkeypatch):
    _analyze(data / "3", tmp_path / "beside", batch_size=7)
    monkeypatch.setattr(moments, "add_sums", lambda images: None)
    _analyze(data / "1", tmp_path / "graph")
    _assert_same(_bits(tmp_path / "graph"), _bits(tmp_path / "beside"))


@pytest.mark.wide
def test_sums_and_pixels_of_one_batch(data, tmp_path):
    found = _analyze(data / "3", tmp_path / "more", 7, standardize_and_more)["statistics"]
    mean = _analyze(data / "3", tmp_path / "plain")["statistics"]["mean"]
    assert found["mean"] == mean
    np.testing.assert_allclose(found["inverse_mean"], 255 - np.array(mean), rtol=1e-14)


@pytest.mark.wide
def test_cached_sums_of_data_sets_merge_to_those_of_all(data, tmp_path, read_shards):
    both, cache = [data / "1", data / "3"], str(tmp_path / "cache")
    _analyze(both, tmp_path / "whole")
    assert len(read_shards()) == 4
    _analyze(both[1:], tmp_path / "first", cache_dir=cache)
    assert len(read_shards()) == 3
    _analyze(both, tmp_path / "added", batch_size=3, cache_dir=cache)
    assert len(read_shards()) == 1
    _analyze(both, tmp_path / "again", cache_dir=cache)
    assert read_shards() == []
    whole = _bits(tmp_path / "whole")
    _assert_same(_bits(tmp_path / "added"), whole)
    _assert_same(_bits(tmp_path / "again"), whole)


@pytest.mark.wide
def test_cached_sums_serve_a_function_that_has_further_analyzers(data, tmp_path, read_shards):
    both, cache = [data / "1", data / "3"], str(tmp_path / "cache")
    _analyze(both, tmp_path / "whole", 64, standardize_and_more)
    _analyze(both[:1], tmp_path / "first", 7, standardize_and_more, cache)
    read_shards()
    _analyze(both, tmp_path / "added", 64, standardize_and_more, cache)
    assert len(read_shards()) == 3
    _assert_same(_bits(tmp_path / "added"), _bits(tmp_path / "whole"))


@pytest.mark.wide
def test_pixels_are_not_read_where_their_sums_suffice(data, tmp_path, monkeypatch):
    note, real = tmp_path / "wanted", run.read_view_batches

    def read_and_note(shard, view, batch_size, wanted, *rest):
        note.write_text(repr(wanted))  # Beam pickles what it runs.
        return real(shard, view, batch_size, wanted, *rest)

    monkeypatch.setattr(run, "read_view_batches", read_and_note)
    _analyze(data / "1", tmp_path / "graph")
    assert note.read_text() == repr(Wanted(pixels=False, sums=True))
