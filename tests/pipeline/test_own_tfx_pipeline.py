"""docs/tfx.md's pipeline to its end: TFX's Evaluator measures what Keras does, and the pushed model
answers as the network was fed."""

import pathlib
import subprocess

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tfx import v1 as tfx  # noqa: F401  (gives TFMA its public names)

# isort: split
import tensorflow_model_analysis as tfma

from image_pipeline import input_fn
from tests import warm

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "tfx.md"
EXPORT = "export_model(model, graph_dir, fn_args.serving_model_dir)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page's pipeline has run here, over photos of two classes that are easily mistaken."""
    folder = tmp_path_factory.mktemp("own")
    generator = np.random.default_rng(0)
    for channel, name in enumerate(("red", "green")):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(60):
            pixels = generator.normal(100, 60, (40, 48, 3))
            pixels[..., channel] += generator.normal(4, 8)
            image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
            image.save(folder / "photos" / name / f"{number:02d}.png")
    page = PAGE.read_text()
    code = page.partition("<<'END'\n")[2].partition("\nEND\n")[0]
    assert code.count(EXPORT) == 1
    code = code.replace(EXPORT, f'{EXPORT}\n    model.save("network.keras")')
    (folder / "my_pipeline.py").write_text(code)
    run(folder)
    return folder


def run(folder):
    done = subprocess.run(
        [*warm.python(), "my_pipeline.py"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def find(folder, pattern):
    (found,) = folder.glob(f"my_run/{pattern}")
    return str(found)


def read_eval(folder):
    data, graph = (
        find(folder, name)
        for name in ("ImageExampleGen/examples/*", "ImageTransform/transform_graph/*")
    )
    return input_fn(data, "eval", graph)


def test_tfma_s_accuracy_is_that_of_keras_and_decides(folder):
    network = keras.models.load_model(folder / "network.keras")
    _, accuracy = network.evaluate(read_eval(folder), verbose=0)
    found = tfma.load_eval_result(find(folder, "Evaluator/evaluation/*"))
    figures = found.get_metrics_for_slice(())
    assert figures["sparse_categorical_accuracy"]["doubleValue"] == pytest.approx(accuracy)
    count = sum(len(labels) for _, labels in read_eval(folder))
    assert figures["example_count"]["doubleValue"] == count > 10
    blessed = list(folder.glob("my_run/Evaluator/blessing/*/BLESSED"))
    pushed = list(folder.glob("my_run/pushed/*/saved_model.pb"))
    assert len(blessed) == len(pushed) == int(accuracy >= 0.6)


def test_the_exported_model_answers_as_the_network_was_fed(folder):
    network = keras.models.load_model(folder / "network.keras")
    data, model = (
        find(folder, "ImageExampleGen/examples/*"),
        find(folder, "Trainer/model/*/Format-Serving"),
    )
    paths = [str(path) for path in pathlib.Path(data, "Split-eval").iterdir()]
    records = list(tf.data.TFRecordDataset(sorted(paths)).as_numpy_iterator())
    loaded = tf.saved_model.load(model)
    answers = loaded.signatures["serving_examples"](examples=tf.constant(records))[
        "probabilities"
    ].numpy()
    due = network.predict(read_eval(folder), verbose=0)
    np.testing.assert_allclose(answers, due, atol=1e-5)
    # And image files: those that the records hold.
    features = [tf.train.Example.FromString(each).features.feature for each in records]
    images = [each["image/encoded"].bytes_list.value[0] for each in features]
    answers = loaded.signatures["serving_default"](image_bytes=tf.constant(images))
    np.testing.assert_allclose(answers["probabilities"], due, atol=1e-5)
    classes = input_fn(data, "eval").class_names
    labels = [classes[number] for number in due.argmax(axis=1)]
    assert [each.decode() for each in answers["label"].numpy()] == labels


def test_an_edited_run_fn_trains_again_and_all_before_it_is_kept(folder):
    code = (folder / "my_pipeline.py").read_text()
    assert code.count("epochs=4") == 1
    (folder / "my_pipeline.py").write_text(code.replace("epochs=4", "epochs=1"))
    run(folder)
    assert len(list(folder.glob("my_run/Trainer/model/*"))) == 2
    assert find(folder, "ImageTransform/transform_graph/*")
