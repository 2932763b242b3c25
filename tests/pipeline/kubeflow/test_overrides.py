import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.config import load_config
from image_pipeline.kubeflow.parameters import GROUPS, override_config

pytestmark = pytest.mark.unit


def test_what_a_run_does_not_name_stays_as_it_was_compiled():
    config = load_config(None, ["training.epochs=7", "ingest.prepare.jpeg_quality=50", "name=cats"])
    changed = override_config(
        config, {"training": "{learning_rate: 0.5}", "ingest": '{"prepare": {"size_px": 99}}'}
    )
    assert changed.training.epochs == 7 and changed.training.learning_rate == 0.5
    assert changed.ingest.prepare.jpeg_quality == 50 and changed.ingest.prepare.size_px == 99
    same = {"training": config.training, "ingest": config.ingest}
    assert changed.model_copy(update=same) == config


def test_keys_may_be_written_with_dots_as_for_set():
    changed = override_config(load_config(None), {"ingest": "prepare.size_px: 99\nseed: 3"})
    assert changed.ingest.prepare.size_px == 99 and changed.ingest.seed == 3


def test_a_value_of_several_parts_is_replaced_whole():
    changed = override_config(load_config(None), {"ingest": "splits: {train: 0.5, eval: 0.5}"})
    assert changed.ingest.splits == {"train": 0.5, "eval": 0.5}


def test_empty_texts_change_nothing():
    config = load_config(None, ["training.epochs=7"])
    assert override_config(config, dict.fromkeys(GROUPS, "")) is config


@pytest.mark.parametrize(
    ("group", "text", "message"),
    [
        ("training", "{epoch: 3}", r"training.epoch: unknown key; did you mean epochs\?"),
        ("training", "{epochs: 0}", r"training.epochs: .* greater than 0, got 0"),
        ("training", "epochs=3", "parameter training must hold options of training, such as"),
        ("training", "{epochs: ", "The run's parameter training is not valid YAML"),
        ("feeding", "{dtype: uint8}", "the pipeline's trainer takes normalised images"),
    ],
)
def test_a_wrong_text_is_refused_as_in_the_configuration(group, text, message):
    with pytest.raises(UserError, match=message):
        override_config(load_config(None), {group: text})


@pytest.mark.parametrize(
    ("group", "text", "message"),
    [
        ("ingest", "{masks: {images: 'i/{key}.*', masks: 'm/{key}.png'}}", "change ingest.masks"),
        ("ingest", "{columns: {label: breed}}", "cannot change ingest.columns from {} to"),
        ("ingest", "{prepare: {dtype: uint16, encoding: raw}}", "on which two steps must agree"),
        ("view", "{channels: 1}", "change view.channels from 3 to 1, on which two steps must"),
        ("transform", "{preprocessing_fn: a.b}", "which names code"),
        ("transform", "{keep_cache: true}", "which decides what steps and folders there are"),
        ("training", "{model: a.b}", "change training.model .* compile the pipeline with it"),
        ("training", "{weights: w.h5}", "change training.weights .* which names files, whose hash"),
        ("training", "{warm_start: latest_blessed}", "decides what steps and folders there are"),
        ("feeding", "{augment: [{op: my.step}]}", r"feeding.augment from \[\] to \['my.step'\]"),
        ("evaluation", "{min_improvement: 0}", "min_improvement from None to 0"),
    ],
)
def test_what_the_pipeline_is_made_of_is_refused_by_name(group, text, message):
    with pytest.raises(UserError, match=message):
        override_config(load_config(None), {group: text})


def test_a_bound_that_is_there_may_move():
    config = load_config(None, ["evaluation.min_improvement=0"])
    changed = override_config(config, {"evaluation": "min_improvement: 0.1"})
    assert changed.evaluation.min_improvement == 0.1
