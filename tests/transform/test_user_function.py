"""A user's own preprocessing_fn in a package of their own, and the graph in others' hands."""

import json
import os
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.graph import TransformGraph
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.records import match_files
from image_pipeline.components.function_version import function_version, source_version
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.tasks.signatures import LABEL
from image_pipeline.components.training.serving import ServedModel
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import load_preprocessing_fn, run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import write_folder
from tests.fed_views import read_views
from tests.transform.analyze import make_pipeline

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=10)
NAME = "mypackage.preprocessing.scale_by_height"
# Nothing of this project is imported: only tf.Transform's convention is used.
SOURCE = """
import tensorflow as tf
import tensorflow_transform as tft

from mypackage.scale import to_unit


def scale_by_height(inputs):
    height = tf.cast(inputs["image/height"], tf.float64)
    bounds = tft.quantiles(height, num_buckets=2, epsilon=0.01)
    greatest = tft.max(tf.cast(inputs["image"], tf.int64))
    return {
        "image": to_unit(inputs["image"], greatest),
        "label": tft.compute_and_apply_vocabulary(
            inputs["label"], default_value=-1, vocab_filename="label"
        ),
        "is_tall": tft.apply_buckets(height, bounds),
    }
"""
SCALE = """
import tensorflow as tf


def to_unit(images, greatest):
    return tf.cast(images, tf.float32) / tf.cast(greatest, tf.float32)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    (folder / "mypackage").mkdir()
    for name, source in {"__init__": "", "preprocessing": SOURCE, "scale": SCALE}.items():
        (folder / "mypackage" / f"{name}.py").write_text(source)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for module in [name for name in sys.modules if name.startswith("mypackage")]:
        del sys.modules[module]


@pytest.fixture(scope="module")
def analysed(package, tmp_path_factory):
    folder = tmp_path_factory.mktemp("analysed")
    images = write_folder(folder / "images", per_class=12)
    options = IngestOptions.model_validate({"prepare": {"encoding": "png"}, "shards": 2})
    run_ingest(str(images), str(folder / "data"), str(folder / "work"), options, make_pipeline)
    transform = TransformOptions(preprocessing_fn=NAME, columns=(record.HEIGHT,))
    run_analysis(str(folder / "data"), str(folder / "graph"), VIEW, transform, make_pipeline)
    batches = read_views(
        [str(folder / "data" / "Split-train" / "*")], VIEW, 5, parse.columns_of([record.HEIGHT])
    )
    np.savez(folder / "batch.npz", **{
        key.replace("/", "-"): value
        for key, value in next(batches.as_numpy_iterator()).items()
    })  # fmt: skip
    return folder


def test_a_named_column_reaches_feeding_and_is_not_missed_in_serving(analysed):
    graph = TransformGraph(str(analysed / "graph"))
    assert graph.columns == (record.Column(record.HEIGHT, "int64"),)
    batches = input_fn(
        [str(analysed / "data" / "Split-train" / "*")],
        view=VIEW,
        feeding=FeedingOptions(batch_size=5),
        transform_graph_dir=str(analysed / "graph"),
        mode="eval",
    )
    images, labels = next(iter(batches))
    assert set(labels.numpy()) <= {0, 1}
    batch = np.load(analysed / "batch.npz", allow_pickle=True)
    np.testing.assert_array_equal(graph.transform_images(batch["image"]), images)
    inputs = {key.replace("-", "/"): tf.constant(value) for key, value in batch.items()}
    saved = tf.saved_model.load(str(analysed / "graph" / "transform_fn"))
    assert saved.transform_fn(inputs)["is_tall"].shape == [5]


def test_serving_reads_the_columns_of_the_label_from_records(analysed):
    transform = TransformGraph(str(analysed / "graph"))
    network = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(2)])
    classifier = ServedModel(network, transform, VIEW, ["cat", "dog"])
    pattern = str(analysed / "data" / "Split-train" / "*")
    examples = tf.stack(list(tf.data.TFRecordDataset(match_files([pattern])[0])))
    found = classifier.transform_features(examples)[LABEL]
    assert set(found.numpy()) == {0, 1}


def test_it_is_found_by_its_dotted_path(analysed):
    summary = json.loads((analysed / "graph" / "analysis.json").read_text())
    assert (summary["preprocessing_fn"], summary["columns"]) == (NAME, [record.HEIGHT])
    batch = np.load(analysed / "batch.npz", allow_pickle=True)
    graph = TransformGraph(str(analysed / "graph"))
    images = graph.transform_images(batch["image"]).numpy()
    assert 0.9 < images.max() <= 1


@pytest.mark.parametrize("columns", [(), (record.WIDTH,)])
def test_a_column_that_is_not_named_is_not_there(package, columns):
    with pytest.raises(UserError, match=r"reads the input 'image/height'.*transform\.columns"):
        load_preprocessing_fn(VIEW, TransformOptions(preprocessing_fn=NAME, columns=columns))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere.at.all", "no module 'nowhere'"),
        ("mypackage.preprocessing.scale", "has no 'scale'"),
    ],
)
def test_a_path_that_leads_nowhere_is_the_users_error(package, path, message):
    with pytest.raises(UserError, match=message):
        load_preprocessing_fn(VIEW, TransformOptions(preprocessing_fn=path))


def test_a_column_that_no_record_has_is_refused():
    with pytest.raises(ValueError, match=r"names 'image/hight', .* did you mean image/height\?"):
        TransformOptions(columns=("image/hight",))
    with pytest.raises(ValueError, match="names a key twice"):
        TransformOptions(columns=(record.WIDTH, record.WIDTH))


def test_the_functions_source_has_a_version(package):
    before = function_version(NAME)
    assert before != function_version("mypackage.scale.to_unit")
    path = package / "mypackage" / "preprocessing.py"
    path.write_text(SOURCE + "# changed\n")
    assert function_version(NAME) != before
    path.write_text(SOURCE)
    assert function_version(NAME) == before
    assert source_version(NAME) == before


PROGRAM = """
    import sys
    import numpy as np, tensorflow as tf
    folder, out = sys.argv[1:]
    batch = np.load(folder + "/batch.npz", allow_pickle=True)
    inputs = {
        "image": tf.constant(batch["image"]),
        "label": tf.constant(batch["label"]),
        "image/height": tf.constant(batch["image-height"]),
    }
    plain = tf.saved_model.load(folder + "/graph/transform_fn").transform_fn(inputs)
    assert "tensorflow_transform" not in sys.modules

    import tensorflow_transform as tft
    output = tft.TFTransformOutput(folder + "/graph")
    spec = output.transformed_feature_spec()
    assert spec["image"].shape == [8, 10, 3] and spec["label"].dtype == tf.int64, spec
    assert output.vocabulary_size_by_name("label") == 2
    found = output.transform_raw_features(inputs)

    for name in ("components", "pipeline", "mypackage"):
        try:
            __import__(name)
        except ModuleNotFoundError:
            continue
        raise AssertionError(name)
    for key in ("image", "label", "is_tall"):
        assert (plain[key].numpy() == found[key].numpy()).all()
    np.savez(out, **{key: value.numpy() for key, value in found.items()})
"""


def test_the_graph_needs_nothing_of_this_project(analysed, tmp_path):
    out = str(tmp_path / "found.npz")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    # An editable install puts this project on the path of any Python: leave it out by hand.
    hide = (
        "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f)]; "
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    hide += f"sys.path[:] = [p for p in sys.path if p not in ('', {root!r})]\n"
    subprocess.run(
        [sys.executable, "-c", hide + textwrap.dedent(PROGRAM), str(analysed), out],
        check=True,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    found, batch = np.load(out), np.load(analysed / "batch.npz", allow_pickle=True)
    graph = TransformGraph(str(analysed / "graph"))
    images, labels = graph(
        {name.replace("-", "/"): tf.constant(values) for name, values in batch.items()}
    )
    np.testing.assert_array_equal(found["image"], images)
    np.testing.assert_array_equal(found["label"], labels)
