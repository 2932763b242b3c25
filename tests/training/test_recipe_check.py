"""Options that nobody would read are refused by name."""

import keras
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training.model_check import build_checked_model
from image_pipeline.components.training.recipe import note_reads
from image_pipeline.components.views.options import ViewOptions

pytestmark = pytest.mark.unit

MODELS = "tests.training.models"


def _build(model="build_linear_model", **options):
    view = ViewOptions(height_px=8, width_px=8)
    training = TrainingOptions(model=f"{MODELS}.{model}", **options)
    return build_checked_model(view, FeedingOptions(), training, 2, steps_per_epoch=7).model


def test_what_is_read_is_noted():
    noted, read = note_reads(TrainingOptions(learning_rate=0.5))
    assert read == set() and isinstance(noted, TrainingOptions)
    assert noted.learning_rate == 0.5 and read == {"learning_rate"}
    assert noted.model_copy(update={"epochs": 3}).epochs == 3 and "use_ema" in read


@pytest.mark.parametrize(("take", "reads"), [(dict, True), (vars, True), (repr, False)])
def test_whoever_takes_all_options_may_read_each(take, reads):
    noted, read = note_reads(TrainingOptions())
    take(noted)
    assert len(read) == (len(TrainingOptions.model_fields) if reads else 0)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"optimizer": "sgd"},
            r"training.optimizer=sgd would change nothing: training.model=tests",
        ),
        ({"use_ema": True}, r"training.use_ema=True would .* Leave it out, or read it there"),
        ({"schedule": "cosine"}, r"training.schedule=cosine would change nothing"),
        (
            {"compile": f"{MODELS}.compile_with_lion", "use_ema": True},
            r"nothing: training.compile=",
        ),
        ({"compile": f"{MODELS}.compile_not"}, r"compile_not returned without having compiled"),
        ({"compile": f"{MODELS}.compile_wrongly"}, r"compile_wrongly failed: .* It is called as"),
        ({"compile": f"{MODELS}.compile_with_leon"}, r"training.compile cannot be .* Did you mean"),
        (
            {"early_stopping_patience": 2, "early_stopping_monitor": "val_f1"},
            r"val_f1 is not a metric of this training; .*there are accuracy, loss, val_a",
        ),
    ],
)
def test_options_that_would_change_nothing_are_refused(options, told):
    with pytest.raises(UserError, match=told):
        _build(**options)


def test_a_function_compiles_the_model():
    model = _build(compile=f"{MODELS}.compile_with_lion", learning_rate=0.25)
    assert isinstance(model.optimizer, keras.optimizers.Lion)
    assert model.optimizer._learning_rate.decay_steps == 14
    assert float(model.optimizer.learning_rate) == 0.25


def test_a_policy_is_for_the_model_only():
    model = _build(dtype_policy="mixed_bfloat16")
    assert model.compute_dtype == "bfloat16"
    assert keras.config.dtype_policy().name == "float32"


def test_a_builder_that_reads_some_options_is_given_them():
    model = _build("build_by_recipe", optimizer="lamb", clipnorm=2.0)
    assert isinstance(model.optimizer, keras.optimizers.Lamb) and model.optimizer.clipnorm == 2


def test_a_policy_that_no_layer_has_is_refused(tmp_path):
    path = str(tmp_path / "saved.keras")
    images = keras.Input((8, 8, 3))
    seen = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(2, 3)(images))
    keras.Model(images, keras.layers.Dense(2)(seen)).save(path)
    training = TrainingOptions(model=path, dtype_policy="mixed_float16")
    with pytest.raises(UserError, match=r"mixed_float16 would change nothing: training.model"):
        build_checked_model(ViewOptions(height_px=8, width_px=8), FeedingOptions(), training, 2)
