import contextlib

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from image_pipeline.components.errors import UserError
from image_pipeline.config import PipelineConfig, check_run, load_config
from image_pipeline.engine_options import KubeflowOptions
from image_pipeline.yaml_text import parse_yaml

pytestmark = pytest.mark.unit


def test_without_anything_all_is_default():
    assert load_config(None) == PipelineConfig()


def test_yaml_overrides_defaults_and_set_overrides_yaml(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("training: {epochs: 3, learning_rate: 0.1}\nview: {height_px: 32}\n")
    config = load_config(str(path), ["training.epochs=5", "ingest.splits={train: 0.5, eval: 0.5}"])
    assert (config.training.epochs, config.training.learning_rate) == (5, 0.1)
    assert config.view.height_px == 32 and config.view.width_px == 224
    assert config.ingest.splits == {"train": 0.5, "eval": 0.5}


def test_an_empty_file_is_all_default(tmp_path):
    (tmp_path / "config.yaml").write_text("# nothing\n")
    assert load_config(str(tmp_path / "config.yaml")) == PipelineConfig()


def test_files_that_cannot_be_read_are_the_users_error(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        load_config(str(tmp_path / "no.yaml"))
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(
        UserError, match="not valid YAML: line 1, column 5: expected the node"
    ) as told:
        load_config(str(tmp_path / "bad.yaml"))
    (tmp_path / "bytes.yaml").write_bytes(b"a: \xff")
    with pytest.raises(UserError, match=r"not valid YAML: .*can't decode byte 0xff"):
        load_config(str(tmp_path / "bytes.yaml"))
    assert "\n" not in str(told.value)
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(UserError, match="must hold `key: value` lines"):
        load_config(str(tmp_path / "list.yaml"))


def test_all_example_configurations_load():
    import pathlib

    paths = sorted((pathlib.Path(__file__).parents[2] / "configs").glob("*.yaml"))
    assert paths
    for path in paths:
        load_config(str(path))


RAW = ["ingest.prepare.encoding=raw"]
DEEP = [*RAW, "ingest.prepare.dtype=uint16"]


def test_a_view_may_be_of_any_type_and_number_of_channels():
    check_run(load_config(None))
    fitting = ["view.dtype=float32", "ingest.prepare.channels=4", "view.channels=4"]
    check_run(load_config(None, [*DEEP, *fitting]))


def test_a_steps_own_keys_replace_the_defaults_one_by_one():
    options = KubeflowOptions.model_validate(
        {
            "defaults": {"cpu": "2", "memory": "8Gi", "caching": False},
            "steps": {"Trainer": {"memory": "64Gi", "caching": None}},
        }
    )
    trainer, pusher = options.of_step("Trainer"), options.of_step("Pusher")
    assert (trainer.cpu, trainer.memory, trainer.caching) == ("2", "64Gi", None)
    assert (pusher.cpu, pusher.memory, pusher.caching) == ("2", "8Gi", False)


def test_the_engines_own_steps_have_the_defaults():
    options = KubeflowOptions.model_validate({"defaults": {"caching": False}})
    assert options.of_step("BaselineResolver-model-resolver").caching is False


@pytest.mark.parametrize("cpu", ["4", "0.5", "500m"])
@pytest.mark.parametrize("memory", ["16Gi", "500M", "1000000000"])
def test_amounts_are_written_as_kubernetes_writes_them(cpu, memory):
    config = load_config(None, [f"kubeflow.steps.Trainer={{cpu: '{cpu}', memory: '{memory}'}}"])
    assert config.kubeflow.of_step("Trainer").cpu == cpu
    assert config.kubeflow.of_step("Trainer").memory == memory


def test_a_number_of_cores_may_be_a_number():
    for cpu in ("4", "0.5"):
        config = load_config(None, [f"kubeflow.steps.Trainer.cpu={cpu}"])
        assert config.kubeflow.of_step("Trainer").cpu == cpu


def refuse(text: str) -> tuple[str, int]:
    """The problem that is named, and its line."""
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        parse_yaml(text)
    return caught.value.problem, caught.value.problem_mark.line + 1


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", "a: 1\nb: 2\n'a': 3", "{a: 1,\nb: 2,\na: 3}"])
def test_a_key_given_twice_is_refused_with_both_lines(text):
    assert refuse(text) == ("the key 'a' is given twice, first in line 1", 3)


def test_a_key_given_twice_in_a_group_is_refused():
    assert refuse("x:\n  a: 1\n  a: 2") == ("the key 'a' is given twice, first in line 2", 3)


def test_what_a_merge_brings_may_be_overridden_as_often_as_it_is_merged():
    text = "base: &base {a: 1, b: 2}\nx: &x {<<: *base, a: 3}\ny: {<<: *x, b: 4}\nz: {<<: *x}"
    x = {"a": 3, "b": 2}
    assert parse_yaml(text) == {"base": {"a": 1, "b": 2}, "x": x, "y": {"a": 3, "b": 4}, "z": x}


def test_of_several_that_are_merged_the_first_counts():
    text = "one: &one {width: 1}\ntwo: &two {width: 2, height: 2}\nx: {<<: [*one, *two]}"
    assert parse_yaml(text)["x"] == {"width": 1, "height": 2}


@pytest.mark.parametrize("text", ["[" * 50_000, "- " * 50_000, "? " * 50_000, "{a: " * 50_000])
def test_what_is_nested_deeply_is_refused_where_it_begins_to_be(text):
    assert refuse(text) == ("values are nested more than 50 deep", 1)


def test_fifty_levels_are_read():
    assert parse_yaml("[" * 49 + "x" + "]" * 49) is not None
    assert refuse("[" * 50 + "x" + "]" * 50)[0] == "values are nested more than 50 deep"


def test_aliases_count_as_what_they_stand_for():
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    pairs = zip("abcdefgh", "bcdefghi", strict=True)
    lines += [f"{new}: &{new} [{','.join(['*' + old] * 9)}]" for old, new in pairs]
    problem, line = refuse("\n".join(lines))
    assert problem == "there are more than 1,000,000 values, those of aliases included"
    assert line == 7  # 9 ** 6 values are some 600,000.
    assert len(parse_yaml("\n".join(lines[:6]))["f"]) == 9


def test_aliases_deepen_what_they_stand_in():
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 3000))]
    assert refuse("\n".join(lines)) == ("values are nested more than 50 deep", 50)


def test_an_alias_of_what_it_is_in_is_refused():
    assert refuse("x: &a\n- *a") == ("an alias of a value that contains it", 2)


@pytest.mark.parametrize("digits", ["9" * 5000, "0x" + "f" * 5000, ":".join(["1"] * 5000)])
def test_a_number_that_cannot_be_printed_is_refused(digits):
    assert refuse(f"x:\n  seed: {digits}") == ("a number of more than 100 digits", 2)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("2026-13-45", "'2026-13-45' is not a valid timestamp"),
        ("!!timestamp x", "'x' is not a valid timestamp"),
        ("!!int x", "'x' is not a valid number"),
        ("!!bool maybe", "'maybe' is not a valid true or false"),
        (r'"\ud800"', r"'\ud800' is not a valid text"),
    ],
)
def test_a_value_that_is_not_what_it_looks_like_is_refused(value, problem):
    assert refuse(f"a: 1\nb: {value}") == (problem, 2)


def test_a_long_document_is_refused():
    with pytest.raises(yaml.YAMLError, match="longer than 16,777,216 characters"):
        parse_yaml("x" * (2**24 + 1))


@hypothesis.given(st.text(st.sampled_from("ab:&*<!{}[]-?|>'\"\\#%@\n\t ,x0\ud800é"), max_size=40))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(yaml.YAMLError):
        parse_yaml(text)


@pytest.mark.parametrize("text", [r'a: "\U00110000"', r'a: "\UFFFFFFFF"', r'"\U00110000": 1'])
def test_an_escape_of_no_character_is_refused(text):
    with pytest.raises(yaml.YAMLError, match="escapes a character that does not exist"):
        parse_yaml(text)
