import json

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation.evaluation import evaluation_config
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.tasks.choose_task import TASKS
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.config import load_config
from image_pipeline.kubeflow.parameters import put_parameters, set_values

pytestmark = pytest.mark.e2e


def _spec():
    steps = ("ImageExampleGen", "ImageTransform", "Trainer", "Evaluator", "Pusher")
    return {
        "root": {
            "inputDefinitions": {},
            "dag": {"tasks": {step: {"inputs": {}} for step in steps}},
        },
        "components": {step: {"inputDefinitions": {}} for step in steps},
    }


def test_each_step_has_the_groups_that_concern_it():
    spec = _spec()
    put_parameters(spec, {"images": "gs://i", "models": "gs://m"})
    given = {
        step: [
            value["componentInputParameter"]
            for value in task["inputs"]["parameters"].values()
            if "componentInputParameter" in value
        ]
        for step, task in spec["root"]["dag"]["tasks"].items()
    }
    assert given == {
        "ImageExampleGen": ["ingest"],
        "ImageTransform": ["view", "transform"],
        "Trainer": ["view", "feeding", "training"],
        "Evaluator": ["evaluation"],
        "Pusher": ["models"],
    }
    for step, task in spec["root"]["dag"]["tasks"].items():
        declared = spec["components"][step]["inputDefinitions"]["parameters"]
        assert declared.keys() == task["inputs"]["parameters"].keys()


def test_what_has_no_default_must_be_given():
    spec = _spec()
    put_parameters(spec, {"images": "gs://i", "images-fingerprint": None})
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    assert parameters["images"] == {"parameterType": "STRING", "defaultValue": "gs://i"}
    assert parameters["images-fingerprint"] == {"parameterType": "STRING"}
    assert parameters["training"] == {"parameterType": "STRING", "defaultValue": ""}


def test_a_step_without_parameters_of_the_run_is_left_alone():
    values = {"exclude_splits": "[]", "run_fn": "a.b"}
    set_values(values)
    assert values == {"exclude_splits": "[]", "run_fn": "a.b"}


def test_ingest_gets_its_options(tmp_path):
    compiled = IngestOptions(seed=3)
    values = {"images_dir": str(tmp_path), "options": compiled.to_json(), "set_ingest": ""}
    set_values(values)
    assert values == {"images_dir": str(tmp_path), "options": compiled.to_json()}
    values["set_ingest"] = "{shards: 5}"
    set_values(values)
    assert values["options"] == compiled.model_copy(update={"shards": 5}).to_json()


def test_a_table_of_other_columns_is_refused(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("image,label,age\na.png,cat,3\n")
    values = {"images_dir": str(table), "options": IngestOptions().to_json(), "set_ingest": ""}
    compiled = complete_options(str(table), IngestOptions()).to_json()
    own = values | {"options": compiled}
    set_values(own)
    assert own["options"] == compiled
    with pytest.raises(UserError, match=r"has the columns .*age.*, but the pipeline was compiled"):
        set_values(values)


def test_training_gets_its_options_and_keeps_its_version():
    config = load_config(None, ["training.epochs=7"])
    groups = ("view", "feeding", "training")
    compiled = config.model_dump(mode="json", include=set(groups)) | {"code_version": "v"}
    texts = {"set_view": "", "set_feeding": "batch_size: 5", "set_training": "seed: 2"}
    values = {"custom_config": json.dumps(compiled), **texts}
    set_values(values)
    compiled["feeding"]["batch_size"], compiled["training"]["seed"] = 5, 2
    assert values.keys() == {"custom_config"}
    assert json.loads(values["custom_config"]) == compiled


@pytest.mark.parametrize("task", TASKS)
def test_what_a_model_must_reach_is_written_as_if_it_were_compiled(task):
    from google.protobuf import json_format
    from tensorflow_model_analysis.proto import config_pb2

    compiled = EvaluationOptions(min_accuracy=0.2)
    values = {
        "eval_config": "compiled",
        "options": compiled.model_dump_json(),
        "task": task,
        "set_evaluation": "",
    }
    unchanged = dict(values)
    set_values(unchanged)
    assert unchanged == {
        **{"eval_config": "compiled", "task": task},
        "options": compiled.model_dump_json(),
    }
    values["set_evaluation"] = "{confidence_intervals: true}"
    set_values(values)
    expected = compiled.model_copy(update={"confidence_intervals": True})
    read = json_format.Parse(values["eval_config"], config_pb2.EvalConfig())
    assert values.keys() == {"eval_config", "options", "task"}
    assert EvaluationOptions.model_validate_json(values["options"]) == expected
    assert read == evaluation_config(expected, TASKS[task])


def test_models_are_pushed_where_the_run_says():
    values = {
        "push_destination": '{"filesystem": {"base_directory": "gs://compiled"}}',
        "set_models": "gs://of_run",
    }
    set_values(values)
    assert json.loads(values["push_destination"]) == {
        "filesystem": {"base_directory": "gs://of_run"}
    }
    assert values.keys() == {"push_destination"}
