import keras
import pytest

from image_pipeline.components.training.profile import measure_step

pytestmark = [pytest.mark.unit, pytest.mark.e2e]


@pytest.mark.parametrize(
    ("kind", "classes", "model"),
    [
        ("classes", 3, "small"),
        ("classes", 3, "EfficientNetLite0"),
        ("tags", 2, "small"),
        ("values", 0, "small"),
        ("masks", 0, "unet"),
        ("boxes", 2, "detector"),
    ],
)
def test_every_kind_of_labels_has_a_step(kind, classes, model):
    assert 0 < measure_step(kind, classes, model, 16, 24, 3) < 10


@pytest.mark.parametrize(("model", "norms_learn"), [("EfficientNetLite0", False), ("small", True)])
def test_a_network_of_photos_is_measured_as_it_is_tuned(monkeypatch, model, norms_learn):
    seen, train = [], keras.Model.train_on_batch

    def watch(self, *data):
        seen.append({type(each).__name__: each.trainable for each in self.layers if each.weights})
        return train(self, *data)

    monkeypatch.setattr(keras.Model, "train_on_batch", watch)
    measure_step("classes", 3, model, 16, 24, 3)
    assert {each["BatchNormalization"] for each in seen} == {norms_learn}
    assert {each[kind] for each in seen for kind in ("Conv2D", "Dense")} == {True}
