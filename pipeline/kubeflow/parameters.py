"""Parameters of a compiled pipeline's runs, and how a step's own parameters follow from them.

Each step has those groups of options that concern it, and no others: engines reuse an earlier
output of a step whose parameters are the same, so other options for training leave ingest's alone.
"""

import json
from collections.abc import Mapping
from typing import Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.sources.span_pattern import LATEST, choose_span, has_span
from image_pipeline.config import PipelineConfig, load_config
from image_pipeline.kubeflow.overrides import GROUPS, override_config

IMAGES, SPAN, FINGERPRINT = "images", "images-span", "images-fingerprint"
MODELS = "models"
NAMES = (IMAGES, SPAN, FINGERPRINT, MODELS, *GROUPS)

_STEPS = {
    "ImageExampleGen": ("ingest",),
    "ImageTransform": ("view", "transform"),
    "Trainer": ("view", "feeding", "training"),
    "Evaluator": ("evaluation",),
    "Pusher": (MODELS,),
}
"""The run's parameters that each step has beside those that TFX gave it."""
_MARK = "set_"


def put_parameters(spec: dict[str, Any], defaults: Mapping[str, str | None]) -> None:
    """Adds the run's parameters to a pipeline, with the values that it is compiled with.

    Args:
      spec: `pipelineSpec`, as TFX compiled it; it is changed.
      defaults: of the images, their span, their fingerprint, and the models' folder; with None,
        each run must give it.
    """
    texts = dict.fromkeys(GROUPS, "")
    spec["root"]["inputDefinitions"]["parameters"] = {
        name: {"parameterType": "STRING"} | ({} if text is None else {"defaultValue": text})
        for name, text in (dict(defaults) | texts).items()
    }
    for step, names in _STEPS.items():
        _bind(spec, step, {f"{_MARK}{name}": {"componentInputParameter": name} for name in names})


def _bind(spec: dict[str, Any], step: str, values: Mapping[str, Any]) -> None:
    """Gives a step more parameters."""
    declared = spec["components"][step]["inputDefinitions"].setdefault("parameters", {})
    given = spec["root"]["dag"]["tasks"][step]["inputs"].setdefault("parameters", {})
    for name, value in values.items():
        declared[name] = {"parameterType": "STRING"}
        given[name] = value


def set_values(values: dict[str, Any]) -> None:
    """Changes a step's parameters as the run's say, and leaves those that TFX knows.

    Args:
      values: `parameterValues` of the launcher's message, by name; it is changed.

    Raises:
      UserError: see `override_config`; or if the images are a table of other columns than the
        pipeline was compiled for.
    """
    given = {
        name.removeprefix(_MARK): values.pop(name) for name in [*values] if name.startswith(_MARK)
    }
    if MODELS in given:
        _set_models(values, given[MODELS])
    elif "ingest" in given:
        _set_ingest(values, given)
    elif "transform" in given:
        _set_transform(values, given)
    elif "training" in given:
        _set_training(values, given)
    elif "evaluation" in given:
        _set_evaluation(values, given)


def _set_models(values: dict[str, Any], models_dir: str) -> None:
    destination = json.loads(values["push_destination"])
    destination["filesystem"]["base_directory"] = models_dir
    values["push_destination"] = json.dumps(destination)


def _set_ingest(values: dict[str, Any], given: Mapping[str, str]) -> None:
    options = _override({"ingest": json.loads(values["options"])}, given).ingest
    _check_columns(values, options)
    values["options"] = options.to_json()


def _check_columns(values: Mapping[str, str], options: IngestOptions) -> None:
    """Refuses a table of other columns: its statistics and its judgement were compiled."""
    images = values["images_dir"]
    if has_span(images):
        images = choose_span(images, values.get("span", LATEST)).path
    if not kind_of(images).is_table:
        return
    found = complete_options(images, options).column_types
    if found != options.column_types:
        raise UserError(
            f"The table {images!r} has the columns {found}, but the pipeline was compiled for "
            f"{options.column_types or 'a folder'}; compile it with --images {images}."
        )


def _set_transform(values: dict[str, Any], given: Mapping[str, str]) -> None:
    compiled = {"view": json.loads(values["view"]), "transform": json.loads(values["options"])}
    config = _override(compiled, given)
    values["view"] = config.view.model_dump_json()
    values["options"] = config.transform.model_dump_json()


def _set_training(values: dict[str, Any], given: Mapping[str, str]) -> None:
    compiled = json.loads(values["custom_config"])
    config = _override({group: compiled[group] for group in given}, given)
    changed = config.model_dump(mode="json", include=set(given))
    values["custom_config"] = json.dumps(compiled | changed, sort_keys=True)


def _set_evaluation(values: dict[str, Any], given: Mapping[str, str]) -> None:
    """Writes TFMA's configuration anew: what a model must reach is in the midst of it."""
    compiled, task = json.loads(values["options"]), values["task"]
    if not given["evaluation"].strip():
        return
    from google.protobuf import json_format

    from image_pipeline.components.evaluation.evaluation import evaluation_config
    from image_pipeline.components.tasks.choose_task import TASKS

    options = _override({"evaluation": compiled}, given).evaluation
    values["options"] = options.model_dump_json()
    values["eval_config"] = json_format.MessageToJson(
        evaluation_config(options, TASKS[task]), sort_keys=True, preserving_proto_field_name=True
    )


def _override(compiled: Mapping[str, Any], given: Mapping[str, str]) -> PipelineConfig:
    """The options of some groups, as compiled and then changed."""
    stored = [f"{group}={json.dumps(values)}" for group, values in compiled.items()]
    return override_config(load_config(None, stored), given)
