"""What a configuration names of a person's own is found out before any work."""

import keras
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.config import load_config
from image_pipeline.run.functions import check_functions
from image_pipeline.run.run_plan import Part

pytestmark = pytest.mark.beam

WHOLE = Part()
ZOO = "tests.training.wrong_models"
VIEW = "view={height_px: 8, width_px: 8}"


def check(*overrides, classes=2, part=WHOLE):
    return check_functions(load_config(None, [VIEW, *overrides]), classes, part)


@pytest.mark.parametrize("option", ["training.model", "transform.preprocessing_fn"])
def test_a_path_that_cannot_be_imported_is_found(option):
    with pytest.raises(UserError, match=rf"{option} cannot be loaded: no module 'no_such'"):
        check(f"{option}=no_such.function")


def test_a_function_that_compiles_is_tried_on_the_default_model():
    with pytest.raises(UserError, match=r"training.compile=tests\S+ returned without having"):
        check("training.compile=tests.training.models.compile_not")
    check("training.compile=tests.training.models.compile_with_lion")


def test_a_figure_that_no_epoch_reports_is_found():
    monitor = ("training.early_stopping_patience=2", "training.early_stopping_monitor=val_f1")
    with pytest.raises(UserError, match=r"val_f1 is not a metric of this training; .* val_loss"):
        check(*monitor)


def test_a_module_that_fails_names_the_option_and_its_error(tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("raise RuntimeError('planted')\n")
    monkeypatch.syspath_prepend(tmp_path)
    message = r"training.model=broken_module.build cannot be loaded; its module fails: RuntimeError"
    with pytest.raises(UserError, match=message):
        check("training.model=broken_module.build")


def test_a_models_mistakes_are_found_with_the_classes_that_the_folders_name():
    with pytest.raises(UserError, match="gives 1000 values per image, but there are 3 classes"):
        check(f"training.model={ZOO}.too_many_values", classes=3)
    check(f"training.model={ZOO}.subclass", classes=3)


def test_a_folder_of_which_no_record_may_be_analysed_is_no_class_that_a_model_must_have():
    check(f"training.model={ZOO}.too_many_values", classes=1001)


def test_where_a_persons_function_numbers_classes_their_number_is_not_known():
    own = "transform.preprocessing_fn=tests.graphs.scale_to_unit"
    check(f"training.model={ZOO}.too_many_values", own)
    with pytest.raises(UserError, match="not compiled"):
        check(f"training.model={ZOO}.not_compiled", own)


def test_weights_that_are_missing_or_of_another_model_are_found(tmp_path):
    with pytest.raises(UserError, match=r"training.weights=no\.weights\.h5 is not there"):
        check("training.weights=no.weights.h5")
    path = tmp_path / "other.weights.h5"
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(7), keras.layers.Dense(2)])
    other.save_weights(path)
    with pytest.raises(UserError, match=r"has 4 arrays that do not fit the model's \d+"):
        check(f"training.weights={path}")


def test_a_backbone_that_cannot_take_the_view_is_found():
    with pytest.raises(UserError, match=r"training.model=ResNet50 cannot take images of 8 × 8"):
        check("training.model=ResNet50")


def test_what_belongs_to_components_that_do_not_run_is_not_looked_at():
    wrong = ("training.model=no.such", "transform.preprocessing_fn=no.such")
    check(*wrong, part=Part(None, "ImageExampleGen"))
    check(wrong[0], part=Part(None, "ImageTransform"))
    with pytest.raises(UserError, match="preprocessing_fn cannot be loaded"):
        check(*wrong, part=Part(None, "ImageTransform"))


def test_the_defaults_are_not_tried(monkeypatch):
    monkeypatch.setattr(
        "image_pipeline.components.training.model_check.build_checked_model", lambda *_: 1 / 0
    )
    check()


def test_several_machines_are_refused_whatever_the_model(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}}')
    with pytest.raises(UserError, match="TF_CONFIG names 2 machines"):
        check()
    check(part=Part(None, "ImageTransform"))


def test_one_process_does_not_train_on_several_machines():
    with pytest.raises(UserError, match="but a run is one; run it with --to ImageTransform, and"):
        check("training.strategy=multi_worker")
    check("training.strategy=multi_worker", part=Part(None, "ImageTransform"))


def test_a_loss_that_devices_cannot_share_is_found():
    told = "gradient_accumulation_steps cannot be combined with training.strategy=mirrored"
    with pytest.raises(UserError, match=told):
        check(
            "training.model=tests.training.device_models.accumulated", "training.strategy=mirrored"
        )


def build_that_rescales(input_shape, num_classes, options):
    """As Keras's guides have it."""
    images = keras.Input(input_shape)
    seen = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255, name="own")(images))
    model = keras.Model(images, keras.layers.Dense(num_classes, "softmax")(seen))
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def test_a_model_that_scales_once_more_is_told_before_any_work():
    model = f"training.model={__name__}.build_that_rescales"
    (told,) = check(model)
    assert (
        "layer 'own' scales grey levels" in told and "preprocessing_fn=standardize gives v" in told
    )
    assert check(model, "transform.preprocessing_fn=keep_levels") == []
