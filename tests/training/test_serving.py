import json
import os
import shutil
import subprocess
import sys

import cv2
import keras
import numpy as np
import pytest
import tensorflow as tf
import tifffile

import image_pipeline
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.inference.exported import ExportedModel
from image_pipeline.components.inference.predict import predict
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.models.model import build_model
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.tasks.signatures import (
    ERROR,
    EXAMPLES,
    IMAGE_BYTES,
    PROBABILITIES,
    SERVE_EXAMPLES,
    SERVE_IMAGES,
)
from image_pipeline.components.training import serving
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests import graphs, shards
from tests.drawings import draw_smooth, encode_png
from tests.ingest_runs import ingest, make_pipeline
from tests.training.models import build_linear_model

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=8)
CLASSES = ["cat", "dog"]


def examples_of_all_formats():
    """Nine records larger than the view: PNG, grey raw, JPEG; some of a class not in the graph."""
    return [
        *shards.make_examples(3, ["cat", "dog"], "png"),
        *shards.make_examples(3, ["dog", "zebra"], "raw", channels=1),
        *shards.make_examples(3, ["cat", "dog"], "jpeg", height=20, width=11),
    ]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    model = build_model((8, 8, 3), 2, TrainingOptions())
    # Far from the symmetrical start, so that probabilities differ from image to image.
    kernel = np.random.default_rng(0).normal(size=model.layers[-1].kernel.shape, scale=20)
    model.layers[-1].set_weights([kernel, np.zeros(2)])
    return model


@pytest.fixture(scope="module")
def export_dir(model, tmp_path_factory):
    """A SavedModel whose transform graph has since been deleted: it must hold all it needs."""
    folder = tmp_path_factory.mktemp("export")
    graph_dir = str(folder / "graph")
    shutil.copytree(graphs.shared_graph_dir(), graph_dir)
    serving.export_model(model, graph_dir, VIEW, CLASSES, str(folder / "model"))
    shutil.rmtree(graph_dir)
    return str(folder / "model")


def test_a_model_of_ones_own_is_exported_by_its_graph_alone(model, tmp_path):
    """Whether it was compiled or not, and gives probabilities or logits."""
    graph_dir = str(tmp_path / "graph")
    shutil.copytree(graphs.shared_graph_dir(), graph_dir)
    graphs.write_analysis(graph_dir)
    logits = keras.Model(model.input, keras.ops.log(model.output))
    examples = examples_of_all_formats()
    expected = evaluate(model, examples, tmp_path / "shards")
    for each in (model, logits):
        image_pipeline.export_model(each, graph_dir, str(tmp_path / each.name))
        answer = tf.saved_model.load(str(tmp_path / each.name)).signatures[SERVE_EXAMPLES]
        probabilities = answer(**{EXAMPLES: tf.constant(examples)})[PROBABILITIES]
        np.testing.assert_allclose(probabilities, expected, atol=1e-5)
        assert image_pipeline.check_model(each, graph_dir) == []


def test_a_model_that_does_not_fit_its_graph_is_not_exported(tmp_path):
    graph_dir = str(tmp_path / "graph")
    shutil.copytree(graphs.shared_graph_dir(), graph_dir)
    with pytest.raises(UserError, match="is not a transform graph's folder"):
        image_pipeline.export_model(
            build_linear_model((8, 8, 3), 2, TrainingOptions()), graph_dir, "m"
        )
    graphs.write_analysis(graph_dir)
    for wrong, message in {
        build_linear_model(
            (8, 8, 3), 3, TrainingOptions()
        ): "The model gives 3 values per image, but",
        build_linear_model(
            (9, 8, 3), 2, TrainingOptions()
        ): r"The model failed on images \[4, 8, 8, 3\]",
        "model.keras": "The model is an object of type str, which is not a keras.Model",
    }.items():
        for use in (image_pipeline.check_model, image_pipeline.export_model):
            arguments = [graph_dir, str(tmp_path / "no")][
                : 1 if use is image_pipeline.check_model else 2
            ]
            with pytest.raises(UserError, match=message) as raised:
                use(wrong, *arguments)
            assert "It must be a keras.Model that takes images [batch, 8, 8, 3] and" in str(
                raised.value
            )
    assert not (tmp_path / "no").exists()
    (tmp_path / "file").touch()
    right = build_linear_model((8, 8, 3), 2, TrainingOptions())
    with pytest.raises(UserError, match=r"The model goes into a folder, but '.*' is a file; name"):
        image_pipeline.export_model(right, graph_dir, str(tmp_path / "file"))


def test_a_trained_model_of_nan_is_told_without_a_word_of_training(tmp_path):
    graph_dir = str(tmp_path / "graph")
    shutil.copytree(graphs.shared_graph_dir(), graph_dir)
    graphs.write_analysis(graph_dir)
    model = build_linear_model((8, 8, 3), 2, TrainingOptions())
    model.set_weights([np.full_like(each, np.nan) for each in model.get_weights()])
    with pytest.raises(UserError, match=r"^The model gives NaN or infinity\. It must be"):
        image_pipeline.export_model(model, graph_dir, str(tmp_path / "no"))


@pytest.fixture(scope="module")
def signatures(export_dir):
    loaded = tf.saved_model.load(export_dir)
    return loaded.signatures  # holds on to what it needs of `loaded`


def evaluate(model, examples, folder):
    """The training side's probabilities of the records, in their order."""
    batches = input_fn(
        [shards.write_shards(folder, examples)],
        view=VIEW,
        feeding=FeedingOptions(batch_size=4),
        transform_graph_dir=graphs.shared_graph_dir(),
        mode="eval",
    )
    return np.concatenate([model(images, training=False) for images, _ in batches])


def test_signatures_name_their_inputs_and_outputs(signatures):
    found = {
        name: (list(signature.structured_input_signature[1]), set(signature.structured_outputs))
        for name, signature in signatures.items()
    }
    assert found == {
        "serving_default": (
            ["image_bytes"],
            {"probabilities", "classes", "label", "valid", "error"},
        ),
        "serving_examples": (["examples"], {"probabilities"}),
        "transform_features": (["examples"], {"label"}),
        "serving_pixels": (["pixels"], {"probabilities", "classes", "label"}),
        "embed_examples": (["examples"], {"embedding"}),
    }


def test_records_are_classified_as_in_evaluation(model, signatures, tmp_path):
    examples = examples_of_all_formats()
    served = signatures["serving_examples"](examples=tf.constant(examples))["probabilities"]
    expected = evaluate(model, examples, tmp_path)
    assert np.ptp(expected[:, 0]) > 0.01  # the model does tell them apart
    np.testing.assert_allclose(served, expected, atol=1e-5)


def test_image_files_of_every_format_are_classified(model, signatures, tmp_path):
    images = [shards.draw_image(number) for number in range(4)]
    formats = ["png", "jpeg", "png", "png"]
    encoded = [shards.encode_image(*pair) for pair in zip(images, formats, strict=True)]
    served = signatures["serving_default"](image_bytes=tf.constant(encoded))

    as_png = [np.asarray(tf.io.decode_image(file, expand_animations=False)) for file in encoded]
    as_png[1] = tf.io.decode_jpeg(encoded[1], dct_method="INTEGER_ACCURATE").numpy()
    expected = evaluate(model, [shards.make_example(image) for image in as_png], tmp_path)
    np.testing.assert_allclose(served["probabilities"], expected, atol=1e-5)
    assert served["classes"].numpy().tolist() == [[b"cat", b"dog"]] * 4
    likeliest = [CLASSES[row.argmax()].encode() for row in expected]
    assert served["label"].numpy().tolist() == likeliest


def test_pixels_get_the_answers_of_their_files_to_the_last_bit(signatures):
    """A caller that has decoded an image already sends the view instead."""
    views = np.stack([shards.draw_image(number, 8, 8) for number in range(4)])
    files = [shards.encode_image(view, "png") for view in views]
    of_files = signatures["serving_default"](image_bytes=tf.constant(files))
    of_pixels = signatures["serving_pixels"](pixels=tf.constant(views))
    assert of_pixels["probabilities"].dtype == tf.float32
    for name, answer in of_pixels.items():
        np.testing.assert_array_equal(answer, of_files[name])


def test_class_ids_are_those_of_the_vocabulary(signatures):
    ids = signatures["transform_features"](examples=tf.constant(examples_of_all_formats()))
    assert ids["label"].dtype == tf.int64
    assert ids["label"].numpy().tolist() == [0, 1, 0, 1, -1, 1, 0, 1, 0]


def test_one_damaged_image_costs_its_own_row_of_eight(signatures):
    good = [shards.encode_image(shards.draw_image(number), "png") for number in range(8)]
    whole = signatures["serving_default"](image_bytes=tf.constant(good))
    assert whole["valid"].numpy().all() and not any(whole["error"].numpy())

    bad = {2: b"no image", 5: good[5][:-20], 6: b""}
    served = signatures["serving_default"](
        image_bytes=tf.constant([bad.get(number, file) for number, file in enumerate(good)])
    )
    errors = {2: b"not_an_image", 5: b"corrupt", 6: b"empty"}
    assert served["error"].numpy().tolist() == [errors.get(number, b"") for number in range(8)]
    is_valid = np.array([number not in bad for number in range(8)])
    assert served["valid"].numpy().tolist() == is_valid.tolist()
    for name in ("probabilities", "label"):
        np.testing.assert_array_equal(served[name][is_valid], whole[name][is_valid])
    assert served["probabilities"].numpy()[~is_valid].tolist() == [[0, 0]] * 3
    assert served["label"].numpy()[~is_valid].tolist() == [b""] * 3


def test_a_request_of_nothing_but_damage_is_answered(signatures):
    served = signatures["serving_default"](image_bytes=tf.constant([b"x"] * 3))
    assert served["valid"].numpy().tolist() == [False] * 3
    assert served["probabilities"].shape == (3, 2)


@pytest.mark.wide
def test_a_damaged_image_is_told_by_loaders_of_tensorflow_1_too(export_dir):
    good = shards.encode_image(shards.draw_image(1), "jpeg")
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], export_dir)
        signature = loaded.signature_def[SERVE_IMAGES]
        answer = session.run(
            signature.outputs[ERROR].name,
            {signature.inputs[IMAGE_BYTES].name: [good, good[:-20], good]},
        )
    assert answer.tolist() == [b"", b"corrupt", b""]


@pytest.mark.wide
def test_transparent_images_are_laid_on_the_analysed_data_sets_background(model, tmp_path):
    graph_dir = tmp_path / "graph"
    shutil.copytree(graphs.shared_graph_dir(), graph_dir)
    background = [10, 200, 60]
    graphs.write_analysis(graph_dir, alpha_background=background)
    serving.export_model(model, str(graph_dir), VIEW, CLASSES, str(tmp_path / "model"))
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    clear, flat = np.zeros((8, 8, 4), np.uint8), np.full((8, 8, 3), background, np.uint8)
    files = [shards.encode_image(image, "png") for image in (clear, flat, flat * 0)]
    served = loaded.signatures["serving_default"](image_bytes=tf.constant(files))
    rows = served["probabilities"].numpy()
    assert (rows[0] == rows[1]).all() and not (rows[0] == rows[2]).any()


@pytest.mark.wide
def test_16_bits_become_the_8_of_the_analysed_data_set(model, tmp_path):
    """In the model, and where its files are decoded for it: TIFFs and arrays."""
    graph_dir = tmp_path / "graph"
    shutil.copytree(graphs.shared_graph_dir(), graph_dir)
    graphs.write_analysis(graph_dir, depth=[300, 4000])
    serving.export_model(model, str(graph_dir), VIEW, CLASSES, str(tmp_path / "model"))
    deep = np.random.default_rng(0).integers(0, 4096, (8, 8, 3), np.uint16)
    seen = np.floor((np.clip(deep, 300, 4000) - 300.0) * 255 / 3700 + 0.5).astype(np.uint8)
    cv2.imwrite(str(tmp_path / "0.png"), deep[:, :, ::-1])
    tifffile.imwrite(tmp_path / "1.tif", deep, photometric="rgb")
    np.save(tmp_path / "2.npy", deep[np.newaxis])
    (tmp_path / "3.png").write_bytes(shards.encode_image(seen, "png"))
    names = [str(tmp_path / name) for name in ("0.png", "1.tif", "2.npy", "3.png")]
    options = IngestOptions.model_validate({"prepare": {"depth": "maximum"}})  # not asked here
    rows = list(predict(ExportedModel(str(tmp_path / "model")), names, options))
    assert [row.get("converted", False) for row in rows] == [False, True, True, False]
    assert len({json.dumps(row["top"]) for row in rows}) == 1


@pytest.mark.whole
@pytest.mark.parametrize("enlarge", [False, True])
def test_files_are_distorted_as_ingest_distorted_the_stored_images(tmp_path, enlarge):
    """Of all shapes, each a class of its own, so that its id tells which file it was."""
    for name, sides in {"high": (90, 41), "long": (37, 150), "thin": (20, 100)}.items():
        (tmp_path / "images" / name).mkdir(parents=True)
        content = encode_png(draw_smooth(len(name) + sides[0], *sides))
        (tmp_path / "images" / name / "0.png").write_bytes(content)
    prepare = {"resize": "exact", "size_px": 32, "encoding": "png", "enlarge": enlarge}
    ingest(tmp_path / "images", tmp_path / "data", prepare=prepare, splits={"train": 1.0})
    view, graph_dir = ViewOptions(height_px=32, width_px=32), str(tmp_path / "graph")
    summary = run_analysis(
        str(tmp_path / "data"), graph_dir, view, TransformOptions(), make_pipeline
    )
    assert summary["resize"] == {"size_px": 32, "enlarge": enlarge}
    keras.utils.set_random_seed(0)
    network = build_linear_model((32, 32, 3), 3, TrainingOptions())
    image_pipeline.export_model(network, graph_dir, str(tmp_path / "model"))
    names = ["high", "long", "thin"]
    files = [(tmp_path / "images" / name / "0.png").read_bytes() for name in names]
    served = ExportedModel(str(tmp_path / "model")).predict(files)
    [(images, labels)] = image_pipeline.input_fn(
        str(tmp_path / "data"), "train", graph_dir, mode="eval"
    )
    expected = dict(zip(labels.numpy(), network(images).numpy(), strict=True))
    for label, row in enumerate(served):
        # OpenCV has shrunk the stored ones, and TensorFlow shrinks these; cropped it is 0.7.
        np.testing.assert_allclose(row[PROBABILITIES], expected[label], atol=0.02)


@pytest.mark.wide
def test_the_view_is_part_of_the_export(tmp_path):
    graph_dir = graphs.shared_graph_dir()
    image = tf.constant([shards.encode_image(shards.draw_image(1), "png")])
    answers = []
    for crop_fraction in (1.0, 0.5):
        keras.utils.set_random_seed(0)
        view = ViewOptions(height_px=8, width_px=8, crop_fraction=crop_fraction)
        linear = build_linear_model((8, 8, 3), 2, TrainingOptions())
        serving.export_model(linear, graph_dir, view, CLASSES, str(tmp_path / str(crop_fraction)))
        loaded = tf.saved_model.load(str(tmp_path / str(crop_fraction)))
        answers.append(loaded.signatures["serving_default"](image_bytes=image)["probabilities"])
    assert not np.allclose(*answers)


def test_a_network_is_traced_once_for_all_signatures_that_answer(tmp_path):
    """Once more for what its last layer sees, and once more by TensorFlow when it saves."""
    traced = []

    class Noted(keras.layers.Layer):
        def call(self, images):
            traced.append(images.shape)
            return images

    inputs = keras.Input((8, 8, 3))
    seen = keras.layers.GlobalAveragePooling2D()(Noted()(inputs))
    network = keras.Model(inputs, keras.layers.Dense(2, activation="softmax")(seen))
    traced.clear()
    serving.export_model(network, graphs.shared_graph_dir(), VIEW, CLASSES, str(tmp_path / "model"))
    assert traced == [(None, 8, 8, 3)] * 3


def test_a_wrong_number_of_names_is_refused(model, tmp_path):
    with pytest.raises(ValueError, match="must name the model's 2 classes, got 1 names"):
        serving.export_model(model, graphs.shared_graph_dir(), VIEW, ["cat"], str(tmp_path))


SERVE_ALONE = """
import json, sys
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
examples = list(tf.data.TFRecordDataset(sys.argv[2]).as_numpy_iterator())
answer = model.signatures["serving_examples"](examples=tf.constant(examples))
ours = {name for name in sys.modules if name.split(".")[0] in ("image_pipeline", "tests", "tfx")}
print(json.dumps([answer["probabilities"].numpy().tolist(), sorted(ours)]))
"""


def test_a_fresh_process_with_tensorflow_alone_answers_the_same(model, export_dir, tmp_path):
    examples = examples_of_all_formats()
    expected = evaluate(model, examples, tmp_path / "data")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    answer = subprocess.run(
        # -P: the script's folder is not importable either.
        [sys.executable, "-P", "-c", SERVE_ALONE, export_dir, *shard_paths(tmp_path / "data")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    served, imported = json.loads(answer.stdout.splitlines()[-1])
    assert imported == []
    np.testing.assert_allclose(served, expected, atol=1e-5)


def shard_paths(folder):
    return sorted(str(path) for path in folder.iterdir())


def test_loaders_of_tensorflow_1_restore_it_too(model, export_dir, tmp_path):
    """TensorFlow Serving, and tfx_bsl's RunInference behind BulkInferrer, load by this way."""
    examples = examples_of_all_formats()
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], export_dir)
        signature = loaded.signature_def[SERVE_EXAMPLES]
        answer = session.run(
            signature.outputs[PROBABILITIES].name, {signature.inputs[EXAMPLES].name: examples}
        )
    np.testing.assert_allclose(answer, evaluate(model, examples, tmp_path), rtol=1e-5)


def test_the_optimizer_is_not_exported(model, export_dir):
    stored = tf.train.list_variables(os.path.join(export_dir, "variables", "variables"))
    sizes = [int(np.prod(shape)) for name, shape in stored if "weights" in name]
    assert sum(sizes) == model.count_params()
    assert not any("optimizer" in name or "momentum" in name for name, _ in stored)
