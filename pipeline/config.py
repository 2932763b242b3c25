"""The configuration: every component's options in one tree, read from YAML and the command line."""

from collections.abc import Mapping, Sequence
from typing import Any

import pydantic
import yaml

from image_pipeline.components.augment.options import RULES
from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.rules import PIXELS
from image_pipeline.components.inference.options import InferenceOptions
from image_pipeline.components.meaning.options import IngestOptions, SpanOptions
from image_pipeline.components.messages import show
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.options import Options, explain_invalid, read_options
from image_pipeline.components.rules import Rule, check
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.tasks.rules import SLICES, TRAINING
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.engine_options import DataflowOptions, KubeflowOptions
from image_pipeline.yaml_text import MOST_CHARACTERS, parse_yaml


class PipelineConfig(Options):
    """All settings of a run; every value has a default."""

    name: str = pydantic.Field(default="image-pipeline", pattern=r"^[a-z][a-z0-9-]*$")
    """The pipeline's name in TFX's metadata and on Kubeflow."""
    ingest: IngestOptions = IngestOptions()
    spans: SpanOptions = SpanOptions()
    view: ViewOptions = ViewOptions()
    transform: TransformOptions = TransformOptions()
    feeding: FeedingOptions = FeedingOptions()
    training: TrainingOptions = TrainingOptions()
    evaluation: EvaluationOptions = EvaluationOptions()
    inference: InferenceOptions = InferenceOptions()
    kubeflow: KubeflowOptions = KubeflowOptions()
    dataflow: DataflowOptions = DataflowOptions()

    rules = (
        Rule(
            lambda options: options.feeding.dtype == "uint8" or options.feeding.layout != "NHWC",
            "the pipeline's trainer takes normalised images with channels last, but feeding has "
            "dtype={options.feeding.dtype} and layout={options.feeding.layout}; use them with "
            "input_fn in a training loop of your own.",
        ),
        Rule(
            lambda options: ", ".join(options.feeding.columns),
            "a pushed model gets images alone, but feeding.columns names {found}; use them with "
            "input_fn in a training loop of your own, or in transform.columns.",
        ),
    )


RUN = (
    # Ingest alone may write any splits.
    Rule(
        lambda splits: ", ".join(sorted({"train", "eval"} - splits.keys())),
        "training needs the splits train and eval, but ingest.splits lacks {found}; add them.",
    ),
    *PIXELS,
    *RULES,
    Rule(
        lambda spans, stored: spans.window != 1 and stored.depth.must_be_found,
        "ingest.prepare.depth in percent comes to other numbers in each span, but "
        "spans.window={spans.window} uses several together; ingest one of them alone, which says "
        "the numbers, and give those as {{low: …, high: …}}.",
    ),
    *TRAINING,
    *SLICES,
)
"""What the stages of a run exclude of each other."""


def check_run(config: PipelineConfig, is_listed: bool = True) -> None:
    """Checks what the stages of a run ask of each other, by `RUN`.

    Args:
      config: all options.
      is_listed: whether a table's columns, and so the kind of labels, are known; rules about them
        wait until then.

    Raises:
      UserError: with all that does not fit.
    """
    ingest, facts = config.ingest, dict[str, Any]()
    if is_listed:
        columns = record.further_columns(ingest.column_types)
        facts = {"labels": ingest.label_kind, "columns": columns}
    stages = {name: getattr(config, name) for name in type(config).model_fields}
    facts |= {"stored": ingest.prepare, "images": "the images", "splits": ingest.splits}
    check(RUN, **stages, **facts, steps=config.feeding.steps)


def load_config(path: str | None, overrides: Sequence[str] = ()) -> PipelineConfig:
    """Reads a configuration.

    Args:
      path: a YAML file that overrides defaults, or None.
      overrides: `key.key=value`, the value in YAML; later ones win.

    Raises:
      UserError: naming the key, the value and what to do.
    """
    values = _read_yaml(path) if path else {}
    for override in overrides:
        _override(values, override)
    try:
        return PipelineConfig.model_validate(values)
    except pydantic.ValidationError as error:
        raise explain_invalid(error, PipelineConfig) from error


def read_group(
    group: str, config: str | PipelineConfig | None, options: Mapping[str, Any] | None = None
) -> Any:
    """Reads the options of one group, for a part of the pipeline that is used alone.

    What a whole pipeline needs beyond the group (a split "eval", say) is not checked.

    Args:
      group: the name of a field of `PipelineConfig`.
      config: a YAML file, a configuration, or None for the defaults.
      options: values of the group's keys, which override it.

    Raises:
      UserError: naming the key, the value and what to do.
    """
    base = load_config(config) if config is None or isinstance(config, str) else config
    values = getattr(base, group).model_dump() | dict(options or {})
    return read_options(type(getattr(base, group)), group, values)


def _read_yaml(path: str) -> dict:
    try:
        with open(path, encoding="utf-8") as file:
            values = parse_yaml(file.read(MOST_CHARACTERS + 1))
    except OSError as error:
        raise UserError(f"Cannot read the configuration {path!r}: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(
            f"The configuration {path!r} is not valid YAML: {_in_a_line(error)}."
        ) from error
    if not isinstance(values or {}, dict):
        raise UserError(
            f"The configuration {path!r} must hold `key: value` lines, got {show(values)}."
        )
    return values or {}


def _in_a_line(error: Exception) -> str:
    """What is wrong and where, without the four lines or more that YAML takes for it."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def _override(values: dict, override: str) -> None:
    """Sets one `key.key=value` in a nested dict."""
    path, equals, text = override.partition("=")
    if not equals or not path:
        raise UserError(f"--set is written key=value, got {override!r}; e.g. training.epochs=3.")
    *parents, key = path.split(".")
    for parent in parents:
        inner = values.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise UserError(f"--set {override}: {parent!r} is a value, not a group of keys.")
        values = inner
    try:
        values[key] = parse_yaml(text)
    except yaml.YAMLError as error:
        raise UserError(
            f"--set {override}: {text!r} is not valid YAML; text with brackets, colons or the like "
            f"is quoted twice: --set '{path}=\"…\"'."
        ) from error
