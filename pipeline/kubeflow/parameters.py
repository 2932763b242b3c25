"""Parameters of a compiled pipeline's runs, and how a step's own parameters follow from them.

Each step has those groups of options that concern it, and no others: engines reuse an earlier
output of a step whose parameters are the same, so other options for training leave ingest's alone.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from image_pipeline.components.augment.options import UserStep
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.options import Options, is_group
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.sources.span_pattern import LATEST, choose_span, has_span
from image_pipeline.config import PipelineConfig, load_config
from image_pipeline.yaml_text import parse_yaml

GROUPS = ("ingest", "view", "transform", "feeding", "training", "evaluation")
"""Groups of options that are parameters of a run."""
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

_JUDGED = "which decides what the model learns and is judged by"
_AGREED = "on which two steps must agree"
_NAMED = "which names code, whose version is part of the compiled pipeline"
_SHAPED = "which decides what steps and folders there are"
_FIXED = {
    **dict.fromkeys(("ingest.columns", "ingest.column_types", "ingest.masks"), _JUDGED),
    **dict.fromkeys(("ingest.prepare.dtype", "ingest.prepare.channels"), _AGREED),
    **dict.fromkeys(("view.dtype", "view.channels"), _AGREED),
    **dict.fromkeys(("transform.preprocessing_fn", "training.model"), _NAMED),
    "training.weights": "which names files, whose hash is part of the compiled pipeline",
    **dict.fromkeys(("transform.keep_cache", "training.warm_start"), _SHAPED),
}
"""What a run cannot change, with the reason."""


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
        destination = json.loads(values["push_destination"])
        destination["filesystem"]["base_directory"] = given[MODELS]
        values["push_destination"] = json.dumps(destination)
    elif "ingest" in given:
        _set_ingest(values, given)
    elif "transform" in given:
        _set_transform(values, given)
    elif "training" in given:
        _set_training(values, given)
    elif "evaluation" in given:
        _set_evaluation(values, given)


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
    """Writes TFMA's configuration again: what a model must reach is in the midst of it."""
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


def override_config(config: PipelineConfig, texts: Mapping[str, str]) -> PipelineConfig:
    """The options of a run.

    Args:
      config: the options that the pipeline was compiled with.
      texts: by a group's name, what the run changes of it, as YAML or JSON: `{epochs: 3}`. What it
        does not name stays, also in groups within it. An empty text changes nothing.

    Raises:
      UserError: if a text is not a group's options, or they are not valid, or a run cannot change
        one of them.
    """
    given = {group: values for group in texts if (values := _read(group, texts[group]))}
    if not given:
        return config
    changes = []
    for group, values in given.items():
        compiled = json.loads(getattr(config, group).model_dump_json())
        kind = type(getattr(config, group))
        changes += [f"{group}={json.dumps(compiled)}"]
        changes += [
            f"{group}.{key}={json.dumps(value, default=str)}"
            for key, value in _flatten(kind, compiled, values)
        ]
    untouched = config.model_dump(mode="json", include=set(GROUPS) - set(given))
    changes += [f"{group}={json.dumps(values)}" for group, values in untouched.items()]
    changed = load_config(None, changes).model_copy(
        update={
            **{"name": config.name, "spans": config.spans, "kubeflow": config.kubeflow},
            "inference": config.inference,
        }
    )
    _check_fixed(config, changed)
    return changed


def _read(group: str, text: str) -> dict[str, Any]:
    """What a run changes of a group."""
    try:
        values = parse_yaml(text) or {}
    except yaml.YAMLError as error:
        raise UserError(f"The run's parameter {group} is not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise UserError(
            f"The run's parameter {group} must hold options of {group}, such as "
            f"{{key: value}}, got {text!r}."
        )
    return values


def _flatten(
    kind: type[Options], compiled: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Single options by their names from the group's on; groups within it are not replaced whole.

    Dictionaries that are a value, as splits are, are.
    """
    for key, value in values.items():
        inner = kind.model_fields[key].annotation if key in kind.model_fields else None
        if is_group(inner) and isinstance(value, Mapping):
            for rest, each in _flatten(inner, compiled[key], value):
                yield f"{key}.{rest}", each
        else:
            yield str(key), value


def _check_fixed(compiled: PipelineConfig, changed: PipelineConfig) -> None:
    """Refuses a change of what the compiled pipeline is made of."""
    for path, reason in _FIXED.items():
        _check_same(path, reason, _look_up(compiled, path), _look_up(changed, path))
    functions = [
        [step.op for step in config.feeding.steps if isinstance(step, UserStep)]
        for config in (compiled, changed)
    ]
    _check_same("feeding.augment", _NAMED, *functions)
    compared = [config.evaluation.min_improvement is not None for config in (compiled, changed)]
    if compared[0] != compared[1]:
        bounds = compiled.evaluation.min_improvement, changed.evaluation.min_improvement
        _check_same("evaluation.min_improvement", _SHAPED, *bounds)


def _check_same(path: str, reason: str, compiled: Any, changed: Any) -> None:
    if changed != compiled:
        raise UserError(
            f"A run cannot change {path} from {compiled!r} to {changed!r}, {reason}; compile the "
            "pipeline with it."
        )


def _look_up(config: PipelineConfig, path: str) -> Any:
    found: Any = config
    for name in path.split("."):
        found = getattr(found, name)
    return found
