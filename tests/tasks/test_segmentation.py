"""Masks from training to evaluation: one way for all, and the same figures everywhere."""

import collections
import io

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.evaluation.counted_metrics import class_ious, count_pixels
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.models.unet import MeanIoU, PixelAccuracy, build_model
from image_pipeline.components.tasks.segmentation import SEGMENTATION
from image_pipeline.components.training import serving
from tests.drawings import encode_png
from tests.tasks import learned
from tests.tasks.analysed import analyse
from tests.tiers import wide
from tests.training import mask_data
from tests.training.mask_data import CLASSES, VIEW, draw_pair, read_examples, split_pattern

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return learned.train(mask_data, tmp_path_factory.mktemp("masks"), epochs=6, learning_rate=0.01)


@pytest.fixture(scope="module")
def signatures(trained):
    return tf.saved_model.load(trained[0]).signatures


def count_all(true, predicted):
    """The mean IoU, each class's and the accuracy, written down again."""
    asked = true != 255
    ious = {}
    for id_ in range(len(CLASSES)):
        both = ((true == id_) & (predicted == id_) & asked).sum()
        either = (((true == id_) | (predicted == id_)) & asked).sum()
        if either:
            ious[id_] = both / either
    return np.mean(list(ious.values())), ious, (true == predicted)[asked].mean()


def find_mistakes(true, predicted):
    """What most of each class's wrong pixels are taken for, written down again."""
    mistakes = {}
    for id_, name in enumerate(CLASSES):
        answers = predicted[true == id_]
        wrong = collections.Counter(answers[answers != id_].tolist())
        if wrong:
            other = min(wrong, key=lambda other: (-wrong[other], other))
            mistakes[name] = {"taken_for": CLASSES[other], "share": wrong[other] / len(answers)}
    return mistakes


def test_training_measures_what_evaluation_would(trained, signatures):
    true = learned.read_fed(mask_data)
    served = signatures["serving_examples"](examples=tf.constant(read_examples("eval")))
    mean, _, accuracy = count_all(true, served["mask"].numpy())
    metrics = trained[1]
    assert metrics["mean_io_u"][-1] > metrics["mean_io_u"][0]
    assert metrics["val_mean_io_u"][-1] == pytest.approx(mean, abs=1e-6)
    assert metrics["val_pixel_accuracy"][-1] == pytest.approx(accuracy, abs=1e-6)


def test_signatures_name_their_outputs(signatures):
    outputs = {name: set(each.structured_outputs) for name, each in signatures.items()}
    assert outputs == {
        "serving_default": {"mask", "mask_bytes", "confidence", "classes", "valid", "error"},
        "serving_examples": {"mask", "confidence"},
        "transform_features": {"mask"},
        "serving_pixels": {"mask", "mask_bytes", "confidence", "classes"},
    }


def test_the_true_mask_is_the_one_that_evaluation_feeds(signatures):
    found = signatures["transform_features"](examples=tf.constant(read_examples("eval")))["mask"]
    masks = learned.read_fed(mask_data)
    graph_dir = str(mask_data.write_data() / "graph")
    assert SEGMENTATION.read_class_names(graph_dir) == CLASSES
    assert found.dtype == tf.uint8
    np.testing.assert_array_equal(found, masks)
    assert set(np.unique(masks)) == {0, 1, 2, 255}


def test_a_served_mask_is_that_of_evaluation_as_ids_and_as_png(signatures):
    files = [encode_png(draw_pair(number)[0]) for number in range(4)]
    names = [f"images/{number:03d}.png" for number in range(4)]
    told = learned.read_named_examples(mask_data, names)
    expected = signatures["serving_examples"](examples=told)
    served = signatures["serving_default"](image_bytes=tf.constant([*files, b"no image"]))
    np.testing.assert_array_equal(served["mask"][:4], expected["mask"])
    np.testing.assert_array_equal(served["confidence"][:4], expected["confidence"])
    for mask, encoded in zip(expected["mask"].numpy(), served["mask_bytes"].numpy(), strict=False):
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(encoded))), mask)
    assert served["classes"].numpy().tolist() == [[name.encode() for name in CLASSES]] * 5
    assert served["valid"].numpy().tolist() == [True] * 4 + [False]
    assert served["error"].numpy().tolist() == [b""] * 4 + [b"not_an_image"]
    assert (served["mask"][4].numpy() == 255).all() and served["mask_bytes"][4].numpy() == b""
    assert served["confidence"][4].numpy() == 0


@pytest.mark.parametrize("is_enough", [wide(True), False])
def test_tfma_measures_what_numpy_does_and_judges_by_it(trained, signatures, tmp_path, is_enough):
    served = signatures["serving_examples"](examples=tf.constant(read_examples("eval")))
    mean, ious, accuracy = count_all(learned.read_fed(mask_data), served["mask"].numpy())
    learned.check_judged(
        mask_data,
        trained[0],
        tmp_path,
        is_enough,
        task=SEGMENTATION,
        option="min_mean_iou",
        figures={"mean_io_u": mean, "pixel_accuracy": accuracy},
        of_class=(("io_u", "mean IoU", "IoU"), {CLASSES[id_]: iou for id_, iou in ious.items()}),
        mistakes=find_mistakes(learned.read_fed(mask_data), served["mask"].numpy()),
    )


@pytest.mark.wide
def test_a_network_must_be_better_than_the_baseline(trained, tmp_path):
    options = {"task": SEGMENTATION, "option": "min_mean_iou"}
    learned.check_compared(mask_data, trained[0], tmp_path, **options)


@pytest.mark.wide
def test_confidence_intervals_are_computed_when_asked_for(trained, tmp_path):
    metrics, _ = analyse(
        SEGMENTATION, split_pattern("eval"), [trained[0]], tmp_path, confidence_intervals=True
    )
    assert "boundedValue" in metrics[""]["mean_io_u"]


def test_pixels_are_counted_by_hand():
    true = np.array([[0, 0, 1], [1, 255, 3]], np.uint8)
    predicted = np.array([[0, 1, 1], [0, 2, 1]], np.uint8)
    counts = count_pixels(true, predicted)
    assert counts.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]
    # Class 0: 1 of 3; 1: 1 of 4; 2 was predicted for an ignored pixel only; 3: none of 1.
    np.testing.assert_array_equal(class_ious(counts), [1 / 3, 1 / 4, np.nan, 0])
    nothing = count_pixels(np.array([255], np.uint8), np.array([7], np.uint8))
    assert nothing.tolist() == [[0]] and np.isnan(class_ious(nothing)).all()


def test_a_network_that_gives_no_numbers_is_refused(tmp_path):
    model = build_model((16, 17, 3), 3, TrainingOptions())
    transform = serving.TransformGraph(str(mask_data.write_data() / "graph"))
    served = serving.ServedModel(model, transform, VIEW, CLASSES, task=SEGMENTATION)
    kernel, bias = model.layers[-1].get_weights()
    model.layers[-1].set_weights([kernel, bias * np.nan])
    made = {
        name: serving._batch_signature(getattr(served, name), "examples")
        for name in ("serve_examples", "transform_features")
    }
    made["serving_examples"] = made.pop("serve_examples")
    tf.saved_model.save(served, str(tmp_path / "model"), signatures=made)
    with pytest.raises(Exception, match="finite probabilities") as raised:
        analyse(SEGMENTATION, split_pattern("eval"), [str(tmp_path / "model")], tmp_path / "out")
    assert "for the eval split's images/0" in str(find_user_error(raised.value))


def build(name):
    return learned.build(mask_data, f"mask_models.{name}", SEGMENTATION)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one_class_an_image", r"gives float32 \[4, 3\] for 4 images"),
        ("half_size", r"gives float32 \[4, 8, 8, 3\] for 4 images"),
        ("too_many_values", r"gives 4 values per pixel, but there are 3 classes"),
        ("reads_ignored", r"fails on masks, int32 \[batch, height, width\], 255 where no class"),
        ("logits_for_a_loss_of_probabilities", r"are not probabilities .*end it in a softmax"),
    ],
)
def test_a_wrong_model_for_masks_is_told_what_is_wanted(name, message):
    with pytest.raises(UserError, match=message) as raised:
        build(name)
    wanted = "images [batch, 16, 17, 3] and gives one tensor [batch, 16, 17, num_classes] of prob"
    assert wanted in str(raised.value)


def test_logits_are_served_as_probabilities():
    checked = build("logits")
    assert checked.gives_logits
    outputs = checked.predict(tf.random.normal([2, 16, 17, 3], seed=1))
    np.testing.assert_allclose(outputs.numpy().sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize("size", [(1, 1, 3), (9, 7, 1), (33, 47, 3), (64, 96, 3)])
def test_images_of_any_size_get_masks_of_that_size(size):
    model = build_model(size, 2, TrainingOptions())
    outputs = model(np.zeros((1, *size), np.float32)).numpy()
    assert outputs.shape == (1, *size[:2], 2)
    np.testing.assert_allclose(outputs.sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    "options", [{}, {"jit_compile": True}, {"steps_per_execution": 2}], ids=str
)
def test_ignored_pixels_change_neither_loss_nor_figures(options):
    keras.utils.set_random_seed(0)
    model = build_model((16, 16, 3), 3, TrainingOptions())
    metrics = [MeanIoU(3), PixelAccuracy()]
    model.compile(model.optimizer, loss=model.loss, metrics=metrics, **options)
    images = np.random.default_rng(0).normal(size=(2, 16, 16, 3)).astype(np.float32)
    masks = np.random.default_rng(1).integers(0, 3, (2, 16, 16)).astype(np.int32)
    masks[:, 8:] = 255
    probabilities = model.predict(images, verbose=0)
    told = model.evaluate(images, masks, batch_size=1, verbose=0, return_dict=True)
    of_class = np.take_along_axis(probabilities[:, :8], masks[:, :8, :, None], axis=-1)
    mean, _, accuracy = count_all(masks, probabilities.argmax(axis=-1))
    assert told["loss"] == pytest.approx(-np.log(of_class).mean(), rel=1e-5)
    assert told["mean_io_u"] == pytest.approx(mean) and told["pixel_accuracy"] == accuracy
