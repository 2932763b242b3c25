"""Options that a run of a compiled pipeline changes, and those that it cannot."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from image_pipeline.components.augment.options import UserStep
from image_pipeline.components.errors import UserError
from image_pipeline.components.options import Options, is_group
from image_pipeline.config import PipelineConfig, load_config
from image_pipeline.yaml_text import parse_yaml

GROUPS = ("ingest", "view", "transform", "feeding", "training", "evaluation")
"""Groups of options that are parameters of a run."""

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
