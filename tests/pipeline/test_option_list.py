import functools
import itertools
import pathlib
import typing

import pytest
import yaml

from image_pipeline.components.augment.options import STEPS
from image_pipeline.components.errors import UserError
from image_pipeline.components.options import Options
from image_pipeline.config import PipelineConfig, load_config
from image_pipeline.option_list import find_options, first_sentence, list_options, list_settable
from image_pipeline.show.options import write_page

pytestmark = pytest.mark.unit

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "options.md"
ALL = {option.key: option for group in list_options() for option in group.options}


def _keys(values, prefix=""):
    """The keys of a configuration as it is written, down to what is not a group."""
    for key, value in values.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")


def _classes(kind=Options):
    """All classes of options of this project."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("image_pipeline."):
            yield each
            yield from _classes(each)


def test_every_key_of_a_configuration_is_there():
    groups = {group.key for group in list_options()}
    free = ("ingest.splits.", "ingest.split_names.")
    written = [key for key in _keys(PipelineConfig().model_dump()) if not key.startswith(free)]
    assert [key for key in written if key not in ALL and key not in groups] == []


def test_every_option_of_every_class_is_there():
    names = {key.rpartition(".")[2] for key in ALL} | {
        group.key.rpartition(".")[2] for group in list_options()
    }
    in_classes = {
        name
        for kind in _classes()
        for name, field in kind.model_fields.items()
        if not (name == "op" and field.default in STEPS)
    }
    assert len(in_classes) > 150 and in_classes - names == set()


def test_every_option_and_group_has_a_meaning():
    assert [key for key, option in ALL.items() if not option.meaning] == []
    assert [group.key for group in list_options() if not group.meaning] == []


def _get(config, key):
    """The value of an option; None where the option's group is one that is off."""
    return functools.reduce(lambda held, name: getattr(held, name, None), key.split("."), config)


def test_the_defaults_and_the_values_can_be_written():
    of_steps = {key for key in ALL if key.startswith("feeding.augment.") and not {*key} & {*"<["}}
    for key in of_steps:
        _, _, step, name = key.split(".")
        settings = [{"op": step, name: yaml.safe_load(ALL[key].default)}]
        config = load_config(None, [f"feeding.augment={yaml.safe_dump(settings)}"])
        assert config.feeding.augment[0].op == step
    defaults = {
        key: _get(PipelineConfig(), key)
        for key, option in ALL.items()
        if option.default and key not in of_steps and not {*key} & {*"<["}
    }
    written = {
        key: _get(load_config(None, [f"{key}={ALL[key].default}"]), key)
        for key, default in defaults.items()
        if default is not None
    }
    assert len(of_steps) > 20 and len(written) > 100
    assert {key: value for key, value in written.items() if value != defaults[key]} == {}


def test_an_option_has_its_default_its_kind_with_unit_and_its_meaning():
    option = ALL["ingest.shard_bytes"]
    assert (option.default, option.kind) == ("134217728", "whole number, more than 0, in bytes")
    assert option.meaning.startswith("Target size of a shard, in bytes")
    assert ALL["feeding.layout"].values == ("NHWC", "NCHW")
    assert ALL["ingest.near_duplicates"].kind == "whole number, at least 0, at most 8, or null"
    assert ALL["kubeflow.steps.<name>.retries.most"].default == ""


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("training.epochs", ["training.epochs"]),
        ("epochs", ["training.epochs"]),
        ("feeding.select", ["feeding.select.where", "feeding.select.fraction"]),
        ("flip_vertical", ["feeding.augment.flip_vertical.probability"]),
        ("SHARD_BYT", ["ingest.shard_bytes"]),
    ],
)
def test_a_key_a_group_a_step_or_a_word_finds_options(key, found):
    keys = [option.key for group in find_options(key) for option in group.options]
    assert keys[: len(found)] == found


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(UserError, match=r"there is no option 'epocs'; did you mean .*epochs"):
        find_options("epocs")
    with pytest.raises(UserError, match="lists all"):
        find_options("")


def test_the_first_sentence_ends_at_a_full_stop_that_ends_a_sentence():
    assert first_sentence("Names, e.g. `{a.b: c}` for 0.5. More.") == (
        "Names, e.g. `{a.b: c}` for 0.5"
    )


def test_groups_with_the_same_options_are_described_once():
    likes = {group.key: group.like for group in list_options() if group.like}
    inner = ("", ".accelerator", ".retries", ".tolerations[]", ".disk")
    assert likes == {f"kubeflow.steps.<name>{each}": f"kubeflow.defaults{each}" for each in inner}
    assert "**`kubeflow.steps.<name>." not in write_page(list_options())


def test_a_step_is_named_to_find_its_options_and_to_set_them():
    (found,) = find_options("kubeflow.steps.Trainer.cpu")
    assert [option.key for option in found.options] == ["kubeflow.steps.<name>.cpu"]
    settable = [option.key for option in list_settable()]
    assert "kubeflow.steps.Pusher.disk.size" in settable and "kubeflow.steps" in settable
    assert [key for key in settable if {*key} & {*"<["} or ".augment." in key] == []


def test_the_page_of_the_docs_is_what_make_options_writes():
    assert PAGE.read_text() == write_page(list_options())


def test_every_kind_is_in_words():
    kinds = set(itertools.chain.from_iterable(option.kind.split() for option in ALL.values()))
    assert not any(word.startswith(("typing", "<class", "~")) for word in kinds)
    assert typing.get_type_hints(PipelineConfig)["view"].__name__ == "ViewOptions"
