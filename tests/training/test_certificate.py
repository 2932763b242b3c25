"""What a model was fed: the certificate beside it names the batches that were logged."""

import dataclasses
import functools
import json
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import image_pipeline
from image_pipeline import api
from image_pipeline.cli import call
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.certificate import (
    FedBatches,
    read_certificate,
)
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training import resume, trainer
from image_pipeline.components.training.checkpoint import Checkpoints
from image_pipeline.components.views.fast import view_pixels
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.named_model import find_certificate
from image_pipeline.run_folder import DATA_SETS
from tests.drawings import write_folder
from tests.ingest_runs import ingest
from tests.training.models import build_linear_model

pytestmark = pytest.mark.beam

LOGGED: list[np.ndarray] = []


class LoggingModel(keras.Model):
    """Logs the pixels of each batch that it is trained on, float32 [batch, height, width, 3]."""

    def train_step(self, data):
        tf.numpy_function(lambda images: LOGGED.append(images.copy()), [data[0]], [])
        return super().train_step(data)


def build_logging_model(input_shape, num_classes, options):
    linear = build_linear_model(input_shape, num_classes, options)
    model = LoggingModel(linear.inputs, linear.outputs)
    model.compile(optimizer=linear.optimizer, loss=linear.loss)
    return model


class Interrupt(Exception):
    """What stops training in these tests."""


class _Stopping(Checkpoints):
    """Stops training after so many batches."""

    def __init__(self, stop_after, *arguments):
        super().__init__(*arguments)
        self._left = stop_after

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        self._left -= 1
        if not self._left:
            raise Interrupt


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data set of 26 images and its transform graph."""
    folder = tmp_path_factory.mktemp("certificate")
    write_folder(folder / "images", per_class=13)
    ingest(folder / "images", folder / "data")
    graph = str(folder / "graph")
    image_pipeline.analyze(str(folder / "data"), graph, view={"height_px": 8, "width_px": 8})
    return folder


@pytest.fixture(scope="module")
def name_images(made):
    """Names the images of a batch by their pixels, which no random step has changed."""
    data = image_pipeline.batches(
        *(str(made / "data"), "train", str(made / "graph")),
        mode="eval",
        columns=["image/filename"],
    )
    names, views = [], []
    for batch in data:
        names += [name.decode() for name in batch["image/filename"]]
        views.append(data.normalize(batch["image"]))
    views = np.concatenate(views)
    views = np.concatenate([views, views[:, :, ::-1]])

    def name(images):
        distances = ((images[:, None] - views) ** 2).mean(axis=(2, 3, 4))
        assert (distances.min(axis=1) < 1e-6).all()
        return [names[number % len(names)] for number in distances.argmin(axis=1)]

    return name


@pytest.fixture
def train(made, tmp_path):
    """Trains a model in a folder; gives the names of the images of each batch that it logs."""

    def run(name="model", stop_after=None, feeding=None, **training):
        LOGGED.clear()
        model = f"{__name__}.build_logging_model"
        arguments = types.SimpleNamespace(
            train_files=[str(made / "data" / "Split-train" / "*")],
            eval_files=[str(made / "data" / "Split-eval" / "*")],
            transform_graph_path=str(made / "graph"),
            serving_model_dir=str(tmp_path / name),
            model_run_dir=str(tmp_path / f"{name}_run"),
            custom_config={
                "view": {"height_px": 8, "width_px": 8},
                "feeding": {"batch_size": 4, "augment": [], **(feeding or {})},
                "training": {"model": model, "epochs": 2, "seed": 5, **training},
            },
        )
        with pytest.MonkeyPatch.context() as patched:
            if stop_after is not None:
                patched.setattr(resume, "Checkpoints", functools.partial(_Stopping, stop_after))
            trainer.run_fn(arguments)
        return LOGGED[:]

    return run


def read_fed(made, folder):
    return FedBatches(find_certificate(str(folder)), [str(made / "data")])


def list_names(fed, steps):
    return [[each.source for each in fed.list_batch(step)] for step in range(steps)]


def check_all(made, folder, logged):
    """Every batch that was logged is named, and every image is found where it was logged."""
    fed = read_fed(made, folder)
    assert list_names(fed, len(logged)) == logged
    with pytest.raises(UserError, match=f"was fed {len(logged)} batches"):
        fed.list_batch(len(logged))
    number = {key: step for step, key in enumerate(_list_keys(fed, len(logged)))}
    for image in sorted({name for batch in logged for name in batch}):
        found = [(number[each.part, each.epoch, each.step], each.place) for each in fed.find(image)]
        expected = [
            (step, place)
            for step, batch in enumerate(logged)
            for place, name in enumerate(batch)
            if name == image
        ]
        assert found == expected


def _list_keys(fed, steps):
    firsts = (fed.list_batch(step)[0] for step in range(steps))
    return [(each.part, each.epoch, each.step) for each in firsts]


@pytest.mark.parametrize(
    "feeding",
    [
        {},
        {"remainder": "drop"},
        {"remainder": "pad", "balance": {"cat": 3, "dog": 1}},
        {"many_views": {"mirror": True}, "select": {"where": 'label == "cat"'}},
        {"shuffle": "shards", "shards_at_once": 1},
    ],
)
def test_each_batch_that_was_logged_is_named(made, name_images, train, tmp_path, feeding):
    logged = list(map(name_images, train(feeding=feeding)))
    check_all(made, tmp_path / "model", logged)


def test_a_training_that_was_stopped_twice_has_one_part(made, name_images, train, tmp_path):
    kept = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_steps": 1}
    logged = []
    for stop_after in (2, 4):
        with pytest.raises(Interrupt):
            train(stop_after=stop_after, **kept)
        logged += map(name_images, LOGGED)
        (checkpoint,) = sorted((tmp_path / "kept").glob("*/*/position.json"))[-1:]
        check_all(made, checkpoint.parent, logged)
    logged += map(name_images, train(**kept))
    check_all(made, tmp_path / "model", logged)
    (part,) = find_certificate(str(tmp_path / "model")).parts
    assert (part.first, part.end, part.steps) == ((0, 0), (2, 0), len(logged))


def test_what_goes_on_from_another_training_has_that_before(made, name_images, train, tmp_path):
    """From its checkpoint, with other options; from its weights."""
    logged = list(map(name_images, train("first", checkpoint_dir=str(tmp_path / "kept"))))
    checkpoint = sorted((tmp_path / "kept").glob("*/*/position.json"))[-1].parent
    more = {"resume_from": str(checkpoint), "epochs": 3}
    went_on = [*logged, *map(name_images, train("second", feeding={"batch_size": 6}, **more))]
    check_all(made, tmp_path / "second", went_on)
    parts = find_certificate(str(tmp_path / "second")).parts
    assert [(part.feeding["batch_size"], part.end) for part in parts] == [(4, (2, 0)), (6, (3, 0))]
    weights = {"weights": str(tmp_path / "second"), "epochs": 1, "seed": 6}
    check_all(made, tmp_path / "third", [*went_on, *map(name_images, train("third", **weights))])
    assert find_certificate(str(tmp_path / "third")).started_from is None


def test_of_the_best_epoch_only_what_came_before_it(made, name_images, train, tmp_path):
    """A learning rate that spoils the weights: the first epoch's are the best."""
    stopping = {"early_stopping_patience": 1, "early_stopping_monitor": "val_loss"}
    logged = list(map(name_images, train(epochs=4, learning_rate=50.0, **stopping)))
    end = find_certificate(str(tmp_path / "model")).parts[0].end
    assert end[0] < len(logged) / find_certificate(str(tmp_path / "model")).parts[0].steps_per_epoch
    check_all(made, tmp_path / "model", logged[: end[0] * len(logged) // 2])


def test_the_best_epoch_may_be_of_the_training_before(made, name_images, train, tmp_path):
    """What goes on from a checkpoint and is no better exports weights that it was given."""
    stopping = {"early_stopping_patience": 9, "early_stopping_monitor": "val_loss"}
    bad = {**stopping, "learning_rate": 50.0, "checkpoint_dir": str(tmp_path / "kept")}
    logged = list(map(name_images, train("first", epochs=3, **bad)))
    first = find_certificate(str(tmp_path / "first")).parts
    assert first[0].end == (1, 0)
    checkpoint = sorted((tmp_path / "kept").glob("*/*/position.json"))[-1].parent
    more = {"resume_from": str(checkpoint), "epochs": 4, "feeding": {"batch_size": 6}}
    train("second", **{**bad, **more})
    assert find_certificate(str(tmp_path / "second")).parts == first
    check_all(made, tmp_path / "second", logged[: len(logged) // 3])


def test_weights_of_others_are_named(made, train, tmp_path):
    path = str(tmp_path / "theirs.weights.h5")
    build_linear_model((8, 8, 3), 2, TrainingOptions()).save_weights(path)
    train(weights=path, epochs=1)
    assert find_certificate(str(tmp_path / "model")).started_from == f"training.weights={path}"


def test_a_checkpoint_of_a_version_without_certificates(made, name_images, train, tmp_path):
    """What its training was fed is known by its options, but not what it began with."""
    path = str(tmp_path / "theirs.weights.h5")
    build_linear_model((8, 8, 3), 2, TrainingOptions()).save_weights(path)
    kept = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_steps": 1, "weights": path}
    with pytest.raises(Interrupt):
        train(stop_after=3, **kept)
    logged = list(map(name_images, LOGGED))
    for old in (tmp_path / "kept").glob("*/*/fed.json"):
        old.unlink()
    logged += map(name_images, train(**kept))
    check_all(made, tmp_path / "model", logged)
    assert find_certificate(str(tmp_path / "model")).started_from == f"training.weights={path}"


def test_windows_are_those_of_the_batches(made, train, tmp_path):
    """Of random crops, without which the same view would be that of evaluation."""
    augment = ["random_resized_crop"]
    train(feeding={"augment": augment, "many_views": {"crops": 2, "mirror": True}}, epochs=1)
    fed = read_fed(made, tmp_path / "model")
    sources = api.random_access(str(made / "data"), "train", columns=["image/filename"])
    stored = {each["image/filename"].decode(): each["image"] for each in sources}
    batches = image_pipeline.batches(
        *(str(made / "data"), "train"),
        view={"height_px": 8, "width_px": 8},
        **{"seed": 5, "batch_size": 4, "augment": augment},
        many_views={"crops": 2, "mirror": True},
    )
    view = ViewOptions(height_px=8, width_px=8)
    for step, batch in enumerate(batches):
        for each, pixels in zip(fed.list_batch(step), batch["image"], strict=True):
            expected = np.zeros((8, 8, 3), np.uint8)
            view_pixels(stored[each.source], np.array(each.window), view, expected)
            if each.mirrored:
                expected = expected[:, ::-1]
            np.testing.assert_array_equal(pixels, expected)


def test_the_command(made, train, tmp_path, capsys):
    train(epochs=1)
    model, data = str(tmp_path / "model"), ["--data", str(made / "data")]
    capsys.readouterr()
    assert call(["seen", model]) == 0
    certificate = find_certificate(model)
    (part,) = certificate.parts
    checksum, split = part.data[0]
    assert capsys.readouterr().out == (
        f"{part.steps} batches of 4, from epoch 0 step 0 up to epoch 1 step 0: {split} of "
        f"{checksum[:16]}…, seed 5\n"
    )
    assert call(["seen", model, "--step", "1", *data]) == 0
    first = read_fed(made, model).list_batch(1)[0]
    assert f"{first.source}  {first.label}" in capsys.readouterr().out
    assert call(["seen", model, "--image", first.source, "--json", *data]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["started_from"] is None
    assert told["seen"] == [json.loads(json.dumps(dataclasses.asdict(first)))]
    assert call(["seen", model, "--image", "no.png", *data]) == 1
    assert "no image 'no.png' is in what the model was fed" in capsys.readouterr().err
    assert call(["seen", model, "--image", first.source]) == 1
    assert f"manifest has the checksum {checksum}" in capsys.readouterr().err
    assert call(["seen", model, "--image", "x", "--step", "1"]) == 2
    # A folder that is none is named, and of a run's folder its data sets are taken.
    capsys.readouterr()
    assert call(["seen", model, "--step", "1", "--data", str(made / "images")]) == 1
    assert f"Error: {str(made / 'images')!r} " in capsys.readouterr().err
    (tmp_path / "run" / DATA_SETS).mkdir(parents=True)
    (tmp_path / "run" / DATA_SETS / "1").symlink_to(made / "data")
    assert call(["seen", model, "--step", "1", "--data", str(tmp_path / "run")]) == 0
    assert f"{first.source}  {first.label}" in capsys.readouterr().out


def test_what_is_damaged_or_missing_is_named(made, train, tmp_path):
    train(epochs=1)
    path = tmp_path / "model" / "assets.extra" / "fed.json"
    path.write_bytes(path.read_bytes().replace(b'"seed": 5', b'"seed": 6'))
    with pytest.raises(UserError, match=r"fed.json' is damaged"):
        find_certificate(str(tmp_path / "model"))
    path.unlink()
    with pytest.raises(UserError, match=r"has no assets.extra/fed.json"):
        find_certificate(str(tmp_path / "model"))


def test_another_order_is_not_named_wrongly(made, train, tmp_path):
    train(epochs=1)
    certificate = read_certificate(str(tmp_path / "model" / "assets.extra"))
    part = dataclasses.replace(certificate.parts[0], steps_per_epoch=99)
    with pytest.raises(UserError, match="an epoch had 99 batches when the model was trained"):
        FedBatches(dataclasses.replace(certificate, parts=[part]), [str(made / "data")])
