"""One numbering of classes: that of the names in order, in records and in the graph."""

import json
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
import tensorflow_transform as tft
from apache_beam.options.pipeline_options import PipelineOptions
from google.protobuf import text_format
from PIL import Image
from tensorflow_model_analysis.proto import config_pb2

from image_pipeline.api import analyze, input_fn
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.dataset import record
from image_pipeline.components.feeding import parse
from image_pipeline.components.views.graph import eval_view
from image_pipeline.components.views.options import ViewOptions
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam

# The later its name, the more often a class occurs: by frequency, the order would be the reverse.
NAMES = sorted(["Zebra", "a10", "a2", "ö", "Ω", "𝛼", "ﬁ"])
GIVEN = ("ö", "never", *(name for name in reversed(NAMES) if name != "ö"))
VIEW = {"height_px": 6, "width_px": 8}
BY_FREQUENCY = f"{__name__}.by_frequency"


def by_frequency(inputs):
    """As the graphs of earlier versions number classes."""
    ids = tft.compute_and_apply_vocabulary(
        inputs["label"], default_value=-1, vocab_filename="label"
    )
    return {"image": tf.cast(inputs["image"], tf.float32), "label": ids}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data sets with numbered classes, `sorted` and `given`, and the graph of each."""
    folder = tmp_path_factory.mktemp("numbering")
    for place, name in enumerate(NAMES):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(5 + place):
            pixels = np.zeros((6, 8, 3), np.uint8)
            pixels[:, place], pixels[0, -1] = 200, number
            Image.fromarray(pixels).save(folder / "images" / name / f"{number}.png")
    for data, classes in (("sorted", None), ("given", GIVEN)):
        options = {"class_ids": True, "classes": classes, "splits": {"train": 0.6, "eval": 0.4}}
        ingest(folder / "images", folder / data, stratify=True, **options)
        analyze(str(folder / data), str(folder / f"{data}-graph"), view=VIEW)
    return folder


def read_ids(folder, data, graph):
    """The class of each record of a split by its name, its own number, and the graph's."""
    shards = sorted(map(str, (folder / data / "Split-eval").iterdir()))
    spec = parse.feature_spec([record.CLASS_ID_COLUMN, parse.LABEL_COLUMN])
    read = tf.data.TFRecordDataset(shards).map(lambda e: tf.io.parse_single_example(e, spec))
    stored = [
        (each[record.LABEL].decode(), int(each[record.LABEL_ID]))
        for each in read.as_numpy_iterator()
    ]
    fed = input_fn(str(folder / data), "eval", str(folder / graph))
    return stored, np.concatenate([labels.numpy() for _, labels in fed]).tolist()


@pytest.mark.parametrize(("data", "names"), [("sorted", NAMES), ("given", GIVEN)])
def test_records_and_the_graph_number_classes_alike(folder, data, names, caplog):
    stored, fed = read_ids(folder, data, f"{data}-graph")
    assert stored == [(name, list(names).index(name)) for name, _ in stored]
    assert sorted(fed) == sorted(number for _, number in stored) and len({*fed}) == len(NAMES)
    said = json.loads((folder / f"{data}-graph" / "analysis.json").read_text())
    assert [each["name"] for each in said["classes"]] == list(names)
    assert record.LABEL_ID not in caplog.text


def export(model, graph_dir, folder):
    """Exports a model as TFX's examples do, with what decodes images between the two steps."""
    output, view = tft.TFTransformOutput(graph_dir), ViewOptions(**VIEW)
    served = tf.Module()
    served.model, served.tft_layer = model, output.transform_features_layer()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(serialized):
        feature_spec = output.raw_feature_spec()
        feature_spec.pop(record.LABEL)
        feature_spec.pop(record.LABEL_ID)
        parsed = tf.io.parse_example(serialized, feature_spec)
        views = tf.map_fn(
            lambda one: eval_view(parse.decode_record(one, view), view),
            {column.key: parsed[column.key] for column in parse.IMAGE_COLUMNS},
            fn_output_signature=tf.TensorSpec([6, 8, 3], tf.uint8),
        )
        return {"scores": served.model(served.tft_layer({"image": views})["image"])}

    tf.saved_model.save(served, folder, {"serving_default": serve})


@pytest.mark.wide
def test_an_evaluator_that_reads_the_records_numbers_gets_the_accuracy_of_the_fed_ones(
    folder, tmp_path
):
    keras.utils.set_random_seed(0)
    graph = str(folder / "given-graph")
    layers = [keras.layers.Flatten(), keras.layers.Dense(len(GIVEN), activation="softmax")]
    model = keras.Sequential([keras.Input((6, 8, 3)), *layers])
    model.compile(
        keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    model.fit(
        input_fn(str(folder / "given"), "train", graph, batch_size=4, augment=[]),
        epochs=5,
        verbose=0,
    )
    _, expected = model.evaluate(input_fn(str(folder / "given"), "eval", graph), verbose=0)
    export(model, graph, str(tmp_path / "model"))
    config = text_format.Parse(
        """model_specs { label_key: "image/class/label" prediction_key: "scores" }
        slicing_specs {}
        metrics_specs { metrics { class_name: "SparseCategoricalAccuracy" } }""",
        config_pb2.EvalConfig(),
    )
    result = tfma.run_model_analysis(
        tfma.default_eval_shared_model(str(tmp_path / "model"), eval_config=config),
        eval_config=config,
        data_location=str(folder / "given" / "Split-eval" / "*"),
        output_path=str(tmp_path / "result"),
        pipeline_options=PipelineOptions(list(LOCAL_BEAM_ARGS)),
    )
    ((_, found),) = result.slicing_metrics
    found = found[""][""]["sparse_categorical_accuracy"]["doubleValue"]
    assert found == pytest.approx(expected, abs=1e-6) and expected > 0.9


def test_a_graph_of_another_numbering_is_fed_and_told_once(folder, tmp_path, caplog):
    """As earlier versions made them."""
    analyze(str(folder / "sorted"), str(tmp_path), view=VIEW, preprocessing_fn=BY_FREQUENCY)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            stored, fed = read_ids(folder, "sorted", tmp_path)
    assert sorted(fed) == sorted(len(NAMES) - 1 - number for _, number in stored)
    assert caplog.text.count("is not the class's number in the transform graph") == 1
    assert "'𝛼' is 6 there, and 0 in the graph" in caplog.text
    assert "Analyze again (`image-pipeline analyze`)" in caplog.text
