"""An exported model as a LiteRT file, run by LiteRT's own interpreter."""

import json

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.cli import call, cli
from image_pipeline.components.inference import litert
from image_pipeline.components.inference.exported import ExportedModel
from tests.inference.exported_models import export

pytestmark = pytest.mark.beam

# The most that an output may be off, which are probabilities.
ENOUGH = {"float32": 1e-6, "float16": 2e-3, "int8": 2e-2}


@pytest.fixture(scope="module")
def classifier():
    return ExportedModel(export("classification"))


@pytest.mark.parametrize("weights", ENOUGH)
def test_answers_are_near_those_of_the_model(classifier, weights):
    content = litert.convert_model(classifier, weights)
    parity = litert.measure_parity(classifier, content)
    assert parity.images == 64 and parity.same_likeliest is not None
    assert parity.most_difference <= ENOUGH[weights] and parity.same_likeliest >= 0.98
    views = litert.make_views(classifier.views_spec)
    served = classifier.loaded.signatures["serving_pixels"](pixels=tf.constant(views))
    found = litert.run_model(content, views)
    assert list(found) == ["probabilities"] and np.ptp(found["probabilities"][:, 0]) > 0.1
    difference = np.abs(found["probabilities"] - served["probabilities"]).max()
    assert difference == pytest.approx(parity.most_difference)


def test_a_difference_is_measured_where_there_is_one(classifier):
    """Weights of another model give other answers, and the figures say so."""
    content = litert.convert_model(classifier)
    other = litert.make_views(classifier.views_spec)[::-1]
    theirs = litert.run_model(content, other)["probabilities"]
    ours = litert.run_model(content, other[::-1])["probabilities"]
    assert np.abs(theirs - ours).max() > 0.1


def test_masks_travel_as_probabilities_of_each_pixel():
    model = ExportedModel(export("segmentation"))
    content = litert.convert_model(model)
    assert litert.measure_parity(model, content).most_difference <= 1e-6
    views = litert.make_views(model.views_spec, 2)
    found = litert.run_model(content, views)["probabilities"]
    served = model.loaded.signatures["serving_pixels"](pixels=tf.constant(views))["mask"]
    assert found.shape == (2, 8, 8, 2)
    np.testing.assert_array_equal(found.argmax(-1), served)


def test_the_command_writes_the_file_and_what_it_takes(tmp_path, capfd):
    path = tmp_path / "model.tflite"
    model_dir = export("classification")
    arguments = ["export", model_dir, "--output", str(path), "--weights", "float16", "--json"]
    assert call(arguments, cli) == 0
    told = json.loads(capfd.readouterr().out)
    beside = json.loads((tmp_path / "model.tflite.json").read_text())
    assert told == {"path": str(path), **beside}
    assert beside["classes"] == ["cat", "dog"] and beside["outputs"] == ["probabilities"]
    assert beside["input"] == {
        "name": "pixels",
        "shape": ["batch", 8, 8, 3],
        "dtype": "uint8",
        "channels": "RGB",
        "color_space": "sRGB",
    }
    assert beside["bytes"] == path.stat().st_size and path.read_bytes()[4:8] == b"TFL3"
    assert beside["parity"]["images"] == 64


def test_a_model_without_a_signature_for_pixels_is_refused(tmp_path, classifier):
    """As earlier versions exported them."""
    loaded = tf.saved_model.load(classifier.folder)
    old = {"serving_default": loaded.signatures["serving_default"]}
    tf.saved_model.save(loaded, str(tmp_path), signatures=old)
    with pytest.raises(Exception, match="has no signature 'serving_pixels', since an earlier"):
        litert.convert_model(ExportedModel(str(tmp_path)))
