"""What tests of masks and of boxes have in common: a model trained on drawn images, and judged.

The images are a module's, `tests.training.mask_data` say.
"""

import json
import pathlib
import types

import numpy as np
import pytest

from image_pipeline.components.evaluation.evaluation import read_measured
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.training import trainer
from image_pipeline.components.training.model_check import build_checked_model
from tests.tasks.analysed import analyse


def train(data, folder, **training):
    """The default model, trained by TFX's `run_fn`: its folder, and the figures by epoch."""
    run = types.SimpleNamespace(
        train_files=[data.split_pattern("train")],
        eval_files=[data.split_pattern("eval")],
        transform_graph_path=str(data.write_data() / "graph"),
        serving_model_dir=str(folder / "serving"),
        model_run_dir=str(folder / "run"),
        custom_config={
            "view": data.VIEW.model_dump(mode="json"),
            "feeding": {"batch_size": 8},
            "training": training,
        },
    )
    trainer.run_fn(run)
    history = json.loads(pathlib.Path(run.model_run_dir, "history.json").read_text())
    assert history["unknown_records"] == {} and history["softmax_added"] is False
    return run.serving_model_dir, history["metrics"]


def read_fed(data):
    """The labels that `input_fn` gives in evaluation, of all records."""
    batches = input_fn(
        [data.split_pattern("eval")],
        mode="eval",
        view=data.VIEW,
        feeding=FeedingOptions(batch_size=5),
        transform_graph_dir=str(data.write_data() / "graph"),
    )
    labels = [labels for _, labels in batches.as_numpy_iterator()]
    if isinstance(labels[0], dict):
        return {key: np.concatenate([each[key] for each in labels]) for key in labels[0]}
    return np.concatenate(labels)


def read_named_examples(data, names):
    """The records of images with these paths."""
    import tensorflow as tf

    examples = {}
    for split in ("train", "eval"):
        for example in data.read_examples(split):
            name = tf.train.Example.FromString(example).features.feature["image/filename"]
            examples[name.bytes_list.value[0].decode()] = example
    return tf.constant([examples[name] for name in names])


def check_judged(data, model_dir, folder, is_enough, *, task, option, figures, of_class, mistakes):
    """Checks what TFMA and the commands say of a model.

    Args:
      data: the images.
      model_dir: the model.
      folder: where figures are written.
      is_enough: whether the bound is a little below the measure, or above.
      task: what it learned.
      option: of the bound.
      figures: all figures of all records as TFMA calls them, the measure first.
      of_class: what TFMA and we call the measure and a class's figure; and those, by name.
      mistakes: by class's name, what we tell is wrong with it.
    """
    mean = next(iter(figures.values()))
    (key, shown, named), values = of_class
    least = mean - 0.001 if is_enough else mean + 0.001
    pattern = data.split_pattern("eval")
    metrics, validation = analyse(task, pattern, [model_dir], folder, **{option: least})
    found = {name: value["doubleValue"] for name, value in metrics[""].items()}
    count = len(data.read_examples("eval"))
    assert found == pytest.approx(figures | {"example_count": count}, abs=1e-9)
    classes = {name: value[key]["doubleValue"] for name, value in metrics.items() if name}
    ids = {f"classId:{data.CLASSES.index(name)}": value for name, value in values.items()}
    assert classes == pytest.approx(ids)
    assert validation.validation_ok is is_enough
    told = read_measured(str(folder), data.CLASSES)
    assert told.metric.words == shown and told.overall[shown].value == pytest.approx(mean)
    assert {name: own[named].value for name, own in told.classes.items()} == pytest.approx(values)
    assert told.mistakes.keys() == mistakes.keys()
    for name, mistake in mistakes.items():
        assert told.mistakes[name].model_dump(exclude_none=True) == pytest.approx(mistake)
    asked = {"option": f"evaluation.{option}", "measure": shown}
    missed = [asked | {"threshold": least, "measured": pytest.approx(mean)}]
    failures = [each.model_dump() for each in told.failures]
    assert failures == ([] if is_enough else missed)
    assert told.bound.option == f"evaluation.{option}" and told.bound.threshold == least


def check_compared(data, model_dir, folder, *, task, option):
    """Checks that a model is no better than itself, whatever is asked."""
    for least, is_enough in ((0.0, True), (0.01, False)):
        asked = {"min_improvement": least, option: 0}
        models = [model_dir] * 2
        pattern, place = data.split_pattern("eval"), folder / str(least)
        _, validation = analyse(task, pattern, models, place, **asked)
        assert validation.validation_ok is is_enough


def build(data, name, task):
    """A user's model of `tests.training`, checked."""
    training = TrainingOptions(model=f"tests.training.{name}")
    options = data.VIEW, FeedingOptions(), training
    return build_checked_model(*options, len(data.CLASSES), task=task)
