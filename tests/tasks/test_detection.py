"""Boxes from training to evaluation: one way for all, and the same figures everywhere."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.average_precision import (
    average_precisions,
    join_found,
    match_boxes,
)
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.detector import build_model
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.tasks.detection import DETECTION, MOST_OBJECTS
from image_pipeline.components.views.graph import place_views
from tests.drawings import encode_png
from tests.tasks import learned
from tests.tasks.analysed import analyse
from tests.tiers import wide
from tests.training import box_data
from tests.training.box_data import CLASSES, MOST, VIEW, draw_boxes, read_examples, split_pattern

pytestmark = pytest.mark.beam


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return learned.train(box_data, tmp_path_factory.mktemp("boxes"), epochs=40, learning_rate=0.003)


@pytest.fixture(scope="module")
def signatures(trained):
    return tf.saved_model.load(trained[0]).signatures


def measure(signatures):
    """The average precisions of each class, of what the signatures answer: [classes, overlaps]."""
    examples = tf.constant(read_examples("eval"))
    true = signatures["transform_features"](examples=examples)["objects"].numpy()
    found = signatures["serving_examples"](examples=examples)["objects"].numpy()
    parts = [match_boxes(*pair) for pair in zip(true, found, strict=True)]
    return np.stack(
        [
            average_precisions(join_found([part[id_] for part in parts if id_ in part]))
            for id_ in range(len(CLASSES))
        ]
    )


def find_shares(signatures):
    """Of each class's true boxes, how many some box of it overlaps by half or more."""
    examples = tf.constant(read_examples("eval"))
    true = signatures["transform_features"](examples=examples)["objects"].numpy()
    found = signatures["serving_examples"](examples=examples)["objects"].numpy()
    shares = {}
    for id_, name in enumerate(CLASSES):
        counts = [match_boxes(*pair).get(id_) for pair in zip(true, found, strict=True)]
        known = [each for each in counts if each is not None]
        shares[name] = sum(each.right[:, 0].sum() for each in known) / sum(e.true for e in known)
    return shares


def test_signatures_name_their_outputs(signatures):
    outputs = {name: set(each.structured_outputs) for name, each in signatures.items()}
    own = {"boxes", "scores", "labels", "count", "classes"}
    assert outputs == {
        "serving_default": own | {"valid", "error"},
        "serving_examples": {"objects"},
        "transform_features": {"objects"},
        "serving_pixels": own,
    }


def test_the_true_boxes_are_those_that_evaluation_feeds(signatures):
    fed = learned.read_fed(box_data)
    objects = signatures["transform_features"](examples=tf.constant(read_examples("eval")))
    assert fed["count"].min() == 0 and fed["count"].max() == MOST
    for row, found in enumerate(objects["objects"].numpy()):
        counts = found[(found[:, 4] >= 0) & (found[:, 5] == 0)]
        count = fed["count"][row]
        np.testing.assert_array_equal(counts[:, :4], fed["boxes"][row, :count])
        np.testing.assert_array_equal(counts[:, 4], fed["labels"][row, :count])


def make_example(boxes):
    """A record's boxes: (top, left, bottom, right, label from 1 on, crowd) each; 40 x 96 px."""
    example = tf.train.Example()
    features = example.features.feature
    keys = (record.BOX_YMIN, record.BOX_XMIN, record.BOX_YMAX, record.BOX_XMAX)
    for place, column in enumerate(keys):
        features[column.key].float_list.value.extend(box[place] for box in boxes)
    features[record.BOX_LABEL.key].int64_list.value.extend(box[4] for box in boxes)
    features[record.BOX_CROWD.key].int64_list.value.extend(box[5] for box in boxes)
    features[record.HEIGHT].int64_list.value.append(40)
    features[record.WIDTH].int64_list.value.append(96)
    return example.SerializeToString()


def test_crowds_and_what_is_hardly_seen_do_not_count_and_what_is_cut_off_is_gone(signatures):
    # The view is the middle half of the image's width.
    boxes = [
        (0, 0.5, 1, 0.75, 1, 0),  # at the right
        (0, 0, 1, 0.25, 1, 0),  # not in the view
        (0, 0.125, 1, 0.5, 2, 0),  # two thirds of it
        (0, 0.5, 0.5, 0.75, 2, 1),  # a crowd
        (0, 0, 1, 0.3125, 2, 0),  # a fifth of it
    ]
    examples = tf.constant([make_example(boxes), make_example([])])
    found = signatures["transform_features"](examples=examples)["objects"].numpy()
    expected = [
        [0, 0.5, 1, 1, 0, 0],
        [0, 0, 0, 0, -1],
        [0, 0, 1, 0.5, 1, 0],
        [0, 0.5, 0.5, 1, 1, 1],
        [0, 0, 1, 0.125, 1, 1],
    ]
    for box, wanted in zip(found[0], expected, strict=True):
        np.testing.assert_allclose(box[: len(wanted)], wanted, atol=1e-6)
    assert (found[1, :, 4] == -1).all()


def test_a_batch_without_any_box_has_no_true_one(signatures):
    examples = tf.constant([make_example([]), make_example([])])
    found = signatures["transform_features"](examples=examples)["objects"].numpy()
    np.testing.assert_array_equal(found, [[[0, 0, 0, 0, -1, 1]]] * 2)


def test_served_boxes_are_shares_of_the_given_image(signatures):
    files = [encode_png(draw_boxes(number)[0]) for number in range(4)]
    told = learned.read_named_examples(box_data, [f"{number:03d}.png" for number in range(4)])
    objects = signatures["serving_examples"](examples=told)["objects"].numpy()
    served = signatures["serving_default"](image_bytes=tf.constant([*files, b"no image"]))
    served = {key: value.numpy() for key, value in served.items()}
    (corner,), (length,) = (part.numpy() for part in place_views(tf.constant([[48, 64]]), VIEW))
    assert length[1] < 1
    for row in range(4):
        found = objects[row][objects[row, :, 4] >= 0]
        assert served["count"][row] == len(found) > 0
        of_image = np.tile(corner, 2) + found[:, :4] * np.tile(length, 2)
        np.testing.assert_allclose(served["boxes"][row, : len(found)], of_image, atol=1e-6)
        np.testing.assert_array_equal(served["scores"][row, : len(found)], found[:, 5])
        names = [CLASSES[int(id_)].encode() for id_ in found[:, 4]]
        assert served["labels"][row, : len(found)].tolist() == names
    padding = np.arange(MOST_OBJECTS) >= served["count"][:, None]
    assert not served["boxes"][padding].any() and not served["scores"][padding].any()
    assert set(served["labels"][padding]) == {b""}
    assert served["valid"].tolist() == [True] * 4 + [False] and served["count"][4] == 0
    assert served["error"].tolist() == [b""] * 4 + [b"not_an_image"]
    assert served["classes"].tolist() == [[name.encode() for name in CLASSES]] * 5


@pytest.mark.parametrize("is_enough", [wide(True), False])
def test_tfma_measures_what_numpy_does_and_judges_by_it(trained, signatures, tmp_path, is_enough):
    precisions = measure(signatures)
    assert precisions[:, 0].mean() > 0.6
    learned.check_judged(
        box_data,
        trained[0],
        tmp_path,
        is_enough,
        task=DETECTION,
        option="min_map_50_95",
        figures={"map_50_95": precisions.mean(), "map_50": precisions[:, 0].mean()},
        of_class=(
            ("ap_50_95", "mAP50-95", "AP50-95"),
            dict(zip(CLASSES, precisions.mean(axis=1), strict=True)),
        ),
        mistakes={name: {"found": share} for name, share in find_shares(signatures).items()},
    )


@pytest.mark.wide
def test_a_network_must_be_better_than_the_baseline(trained, tmp_path):
    options = {"task": DETECTION, "option": "min_map_50_95"}
    learned.check_compared(box_data, trained[0], tmp_path, **options)


@pytest.mark.wide
def test_confidence_intervals_are_computed_when_asked_for(trained, tmp_path):
    metrics, _ = analyse(
        DETECTION, split_pattern("eval"), [trained[0]], tmp_path, confidence_intervals=True
    )
    assert "boundedValue" in metrics[""]["map_50_95"]


def build(name):
    return learned.build(box_data, f"box_models.{name}", DETECTION)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one_tensor", "gives one tensor, not a dict of boxes and scores"),
        ("other_names", r"gives a dict of \['box', 'score'\], not a dict of boxes and scores"),
        ("five_sides", r"gives \{'boxes': 'float32 \[4, 5, 5\]', 'scores': .* for 4 images"),
        ("too_many_values", "gives 3 values per candidate, but there are 2 classes"),
        ("without_loss", r"fails on a dict of boxes \[batch, most, 4\], labels .*No loss"),
    ],
)
def test_a_wrong_model_for_boxes_is_told_what_is_wanted(name, message):
    with pytest.raises(UserError, match=message) as raised:
        build(name)
    wanted = "images [batch, 40, 48, 3] and gives a dict of boxes and scores [batch, candidates, 4]"
    assert wanted in str(raised.value)


def test_logits_are_served_as_probabilities():
    checked = build("logits")
    assert checked.gives_logits
    images = tf.random.normal([2, 40, 48, 3], seed=1)
    found, raw = checked.predict(images), checked.model(images)
    np.testing.assert_array_equal(found["boxes"], raw["boxes"])
    np.testing.assert_allclose(found["scores"], tf.sigmoid(raw["scores"]), rtol=1e-6)


def test_outputs_that_are_no_numbers_show_in_the_answer():
    boxes, scores = np.zeros((3, 2, 4), np.float32), np.full((3, 2, 1), 0.5, np.float32)
    boxes[0, 1, 2], scores[1, 0, 0] = np.inf, np.nan
    outputs = {"boxes": tf.constant(boxes), "scores": tf.constant(scores)}
    found = DETECTION.answer_records(outputs)["objects"].numpy()
    assert np.isnan(found[:2]).all() and np.isfinite(found[2]).all()


def test_of_candidates_that_overlap_the_likeliest_is_kept_in_each_class():
    boxes = [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.45], [0.5, 0.5, 1, 1.2], [0.6, 0, 1, 0.4]]
    scores = [[0.6, 0], [0.7, 0.2], [0.4, 0], [0.04, 0]]
    outputs = {"boxes": tf.constant([boxes]), "scores": tf.constant([scores])}
    found = DETECTION.answer_records(outputs)["objects"].numpy()[0]
    expected = [
        [0, 0, 0.5, 0.45, 0, 0.7],
        [0.5, 0.5, 1, 1, 0, 0.4],  # cut at the view's side
        [0, 0, 0.5, 0.45, 1, 0.2],
    ]
    np.testing.assert_allclose(found[:3], expected, rtol=1e-6)
    assert (found[3:, 4] == -1).all()


@pytest.mark.wide
def test_fed_boxes_fit_fit():
    """As everybody writes it, with random steps."""
    batches = input_fn(
        [split_pattern("train")],
        mode="train",
        view=VIEW,
        feeding=FeedingOptions(batch_size=8, augment=["random_resized_crop", "flip_horizontal"]),
        transform_graph_dir=str(box_data.write_data() / "graph"),
        epochs=2,
    )
    keras.utils.set_random_seed(0)
    model = build_model((40, 48, 3), len(CLASSES), TrainingOptions())
    history = model.fit(batches, verbose=0).history
    assert np.isfinite(history["loss"]).all()
