"""An exported model as a LiteRT file, run by LiteRT's own interpreter."""

import json
import resource

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.cli import call, cli
from image_pipeline.components.errors import find_user_error
from image_pipeline.components.inference import litert
from image_pipeline.components.inference.exported import ExportedModel
from tests.inference.exported_models import export

pytestmark = pytest.mark.beam

# The most that an output may be off, which are probabilities.
ENOUGH = {"float32": 1e-6, "float16": 2e-3, "int8": 2e-2}


@pytest.fixture(scope="module")
def classifier():
    return ExportedModel(export("classification"))


@pytest.mark.wide
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


def test_a_limit_on_files_is_not_taken_for_a_model_that_cannot_be_converted(classifier):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(Exception, match="File too large") as raised:
            litert.convert_model(classifier)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "`ulimit -f`" in str(find_user_error(raised.value))


@pytest.mark.wide
def test_a_difference_is_measured_where_there_is_one(classifier):
    """Weights of another model give other answers, and the figures say so."""
    content = litert.convert_model(classifier)
    other = litert.make_views(classifier.views_spec)[::-1]
    theirs = litert.run_model(content, other)["probabilities"]
    ours = litert.run_model(content, other[::-1])["probabilities"]
    assert np.abs(theirs - ours).max() > 0.1


@pytest.mark.wide
def test_masks_travel_as_probabilities_of_each_pixel():
    model = ExportedModel(export("segmentation"))
    content = litert.convert_model(model)
    assert litert.measure_parity(model, content).most_difference <= 1e-6
    views = litert.make_views(model.views_spec, 2)
    found = litert.run_model(content, views)["probabilities"]
    served = model.loaded.signatures["serving_pixels"](pixels=tf.constant(views))["mask"]
    assert found.shape == (2, 8, 8, 2)
    np.testing.assert_array_equal(found.argmax(-1), served)


@pytest.mark.wide
@pytest.mark.parametrize("weights", ["float32", "float16"])
def test_boxes_and_scores_travel_as_they_are_before_suppression(weights):
    model = ExportedModel(export("detection"))
    content = litert.convert_model(model, weights)
    assert litert.measure_parity(model, content).most_difference <= ENOUGH[weights]
    views = litert.make_views(model.views_spec, 2)
    found = litert.run_model(content, views)
    # Suppression keeps the likeliest candidate of each class as it is.
    served = model.loaded.signatures["serving_pixels"](pixels=tf.constant(views))
    assert found.keys() == {"boxes", "scores"} and found["boxes"].shape == (2, 5, 4)
    for image in range(2):
        first = np.unravel_index(found["scores"][image].argmax(), found["scores"][image].shape)
        assert abs(found["scores"][image][first] - served["scores"][image, 0]) <= ENOUGH[weights]
        difference = np.abs(found["boxes"][image, first[0]].clip(0, 1) - served["boxes"][image, 0])
        assert difference.max() <= ENOUGH[weights]


@pytest.mark.parametrize("output", ["photo.png/model.tflite", "folder"])
def test_where_no_file_can_be_written_nothing_is_converted(tmp_path, capfd, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(litert, "convert_model", None)
    (tmp_path / "photo.png").touch()
    (tmp_path / "folder").mkdir()
    assert call(["export", export("classification"), "--output", output], cli) == 1
    (said,) = capfd.readouterr().err.splitlines()
    assert said.startswith(f"Error: Cannot write '{output}': ")
    assert said.endswith("; choose another file.")


@pytest.mark.wide
def test_the_command_writes_the_file_and_what_it_takes(tmp_path, capfd):
    path = tmp_path / "model.tflite"
    model_dir = export("classification")
    arguments = ["export", model_dir, "--output", str(path), "--weights", "float16", "--json"]
    assert call(arguments, cli) == 0
    told = json.loads(capfd.readouterr().out)
    beside = json.loads((tmp_path / "model.tflite.json").read_text())
    assert told == {"version": 1, "path": str(path), **beside}
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
