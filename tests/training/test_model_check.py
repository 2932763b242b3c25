import keras
import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training import serving, trainer
from image_pipeline.components.training.model_check import build_checked_model, notice_loss
from image_pipeline.components.views.options import ViewOptions
from tests import graphs, shards
from tests.tiers import wide
from tests.training.test_trainer import make_fn_args, train

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=8)
ZOO = "tests.training.wrong_models"


def build(name, num_classes=2, feeding=None, **options):
    training = TrainingOptions(model=name if "." in name else f"{ZOO}.{name}")
    return build_checked_model(VIEW, feeding or FeedingOptions(), training, num_classes, **options)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("too_many_values", r"gives 1000 values per image, but there are 2 classes; give its last"),
        ("dict_of_outputs", r"gives a dict of \['probabilities'\], not one tensor"),
        ("list_of_outputs", r"gives a list of 2, not one tensor"),
        ("map_of_outputs", r"gives float32 \[4, 8, 8, 2\] for 4 images"),
        ("not_compiled", r"a model that is not compiled; call model.compile in it"),
        ("without_a_loss", r"fails on class ids as labels: ValueError: No loss to compute"),
        ("two_inputs", r"failed on images \[4, 8, 8, 3\].*: ValueError: .*expects 2 named input"),
        ("other_size", r"failed on images \[4, 8, 8, 3\].*: ValueError: .*"),
        ("one_hot_loss", r"fails on class ids as labels: ValueError: "),
        ("no_model", r"returned an object of type str, which is not a keras.Model"),
        ("nothing", r"returned None, which is not a keras.Model"),
        ("fails", r"failed \(wrong_models.py, line \d+\): KeyError: 'planted'"),
        ("takes_one_argument", r"TypeError: takes_one_argument\(\) takes 1 positional argument"),
        ("born_infinite", r"gives NaN or infinity before it is trained"),
        ("infinite_constant", r"has NaN or infinity among its weights"),
        (
            "logits_for_a_loss_of_probabilities",
            r"that are not probabilities \(a row has values from -?0\.\d+ to -?0\.\d+, and the sum "
            r"-?0\.\d+\), but has a loss .*from_logits=True",
        ),
        ("two_when_trained", r"gives a tuple of 2, not one tensor, when it is trained"),
        (
            "eager_only",
            r"cannot be made into a TensorFlow graph.*: AttributeError: .*no attribute 'numpy'",
        ),
        ("table", r"holds a table or another resource of TensorFlow's, which cannot be exported"),
        ("sigmoid", r"outputs that are not probabilities .*end it in a softmax"),
    ],
)
def test_a_wrong_model_is_named_with_what_it_is_and_what_is_wanted(name, message):
    with pytest.raises(UserError, match=message) as raised:
        build(name)
    text = str(raised.value)
    assert text.startswith(f"training.model={ZOO}.{name} ")
    assert "takes images [batch, 8, 8, 3] and gives one tensor [batch, num_classes]" in text
    assert "Arguments received" not in text and "\n" not in text


def build_subclassed(input_shape, num_classes, options):
    """Keras's own idiom: its weights exist once it has been called."""

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.pool = keras.layers.GlobalAveragePooling2D()
            self.head = keras.layers.Dense(num_classes, activation="softmax")

        def call(self, images):
            return self.head(self.pool(images))

    model = Own()
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def test_a_model_that_is_not_built_yet_is_given_its_weights(tmp_path):
    path = str(tmp_path / "its.weights.h5")
    theirs = build_subclassed((8, 8, 3), 2, None)
    theirs(np.zeros([1, 8, 8, 3], np.float32))
    theirs.save_weights(path)
    training = TrainingOptions(model=f"{__name__}.build_subclassed", weights=path)
    ours = build_checked_model(VIEW, FeedingOptions(), training, 2).model
    np.testing.assert_array_equal(ours.head.kernel, theirs.head.kernel)


def test_a_path_that_cannot_be_imported_names_the_option():
    with pytest.raises(UserError, match=r"training\.model cannot be loaded: no module 'no_such'"):
        build("no_such.model")


def test_the_wrong_model_is_found_before_any_training(tmp_path):
    fn_args = make_fn_args(tmp_path, training={"model": f"{ZOO}.too_many_values"})
    with pytest.raises(UserError, match=f"training.model={ZOO}.too_many_values"):
        trainer.run_fn(fn_args)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "name",
    ["subclass", "image_pipeline.components.models.model.build_model"],
    ids=["subclass", "default"],
)
def test_models_of_probabilities_pass_as_they_are(name):
    assert not build(name, 5).gives_logits


def test_a_loss_that_takes_probabilities_for_logits_is_told():
    checked = build("subclass")
    assert notice_loss(checked) == notice_loss(build("logits")) == []
    checked.model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert notice_loss(checked) == [
        "the model gives probabilities, but has a loss that reads logits (from_logits=True); "
        "compile the loss without it, or leave the softmax out"
    ]


def test_shares_of_classes_are_tried_where_images_are_mixed():
    mixing = FeedingOptions(augment=["mixup"])
    assert not build("one_hot_loss", feeding=mixing).gives_logits
    with pytest.raises(UserError, match="fails on shares of classes, float32"):
        build("subclass", feeding=mixing)


def test_a_number_of_classes_that_is_not_certain_is_not_asked_for():
    assert not build("too_many_values", counted="not").gives_logits


def test_a_subclass_is_trained_exported_and_answers(tmp_path):
    history, probabilities = train(tmp_path, training={"model": f"{ZOO}.subclass"})
    assert len(history["metrics"]["loss"]) == 2 and history["softmax_added"] is False
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("name", ["noisy", wide("scaled")])
def test_state_that_is_no_weight_is_exported_too(tmp_path, name):
    """It was found only after training: "references an 'untracked' resource"."""
    _, probabilities = train(tmp_path, training={"model": f"{ZOO}.{name}"})
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.wide
def test_logits_are_trained_as_such_and_served_as_probabilities(tmp_path):
    history, probabilities = train(tmp_path, training={"model": f"{ZOO}.logits"})
    assert history["softmax_added"] is True
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    # A softmax in the model gives the same training, since the loss was left on logits.
    same, served = train(tmp_path / "same", training={"model": f"{ZOO}.subclass"})
    np.testing.assert_allclose(history["metrics"]["loss"], same["metrics"]["loss"], rtol=1e-4)
    np.testing.assert_allclose(probabilities, served, rtol=1e-3)


@pytest.mark.parametrize("where", ["bias", "unused"])
def test_what_is_not_finite_is_not_exported(where, tmp_path):
    checked = build("subclass")
    kernel, bias = checked.model.get_weights()
    if where == "bias":
        bias[0] = np.nan
        message = "must give finite probabilities, but gives nan for a grey image"
    else:
        kernel[0, 0] = -np.inf  # of a pixel that is 0 in the grey image: one of many weights
        message = "finite"
    checked.model.set_weights([kernel, bias])
    with pytest.raises(UserError, match=message):
        serving.export_model(
            checked.model, graphs.shared_graph_dir(), VIEW, ["cat", "dog"], str(tmp_path / "out")
        )
    assert not (tmp_path / "out").exists()


def test_the_trial_leaves_no_trace_in_training(tmp_path):
    """Metrics start at zero, and weights are what they are without the trial."""
    keras.utils.set_random_seed(0)
    from tests.training.models import build_linear_model

    alone = build_linear_model((8, 8, 3), 2, TrainingOptions()).get_weights()
    checked = build("tests.training.models.build_linear_model")
    for mine, other in zip(checked.model.get_weights(), alone, strict=True):
        np.testing.assert_array_equal(mine, other)
    images = tf.constant(np.stack([shards.draw_image(n, 8, 8) for n in range(4)]), tf.float32)
    result = checked.model.evaluate(images, tf.constant([0, 1, 0, 1]), verbose=0)
    again = checked.model.evaluate(images, tf.constant([0, 1, 0, 1]), verbose=0)
    assert result == again
