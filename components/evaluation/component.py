"""Evaluator: TFX's own, with this project's metrics beside TFMA's. No logic."""

import contextlib
import json
from typing import Any

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import (
    artifact_utils,
    channel,
    channel_utils,
    component_spec,
    standard_artifacts,
    standard_component_specs,
)
from tfx.utils import path_utils

from image_pipeline.components import files
from image_pipeline.components.beam import tfx_components
from image_pipeline.components.evaluation.answers import collect
from image_pipeline.components.evaluation.evaluation import evaluation_config
from image_pipeline.components.evaluation.findings import plan_collection, write_findings
from image_pipeline.components.function_version import code_version
from image_pipeline.components.tasks.choose_task import TASKS
from image_pipeline.components.tasks.options import EvaluationOptions


class EvaluatorExecutor(tfx_components.EvaluatorExecutor):
    """Measures a model, and describes its answers."""

    def Do(self, input_dict: dict, output_dict: dict, exec_properties: dict[str, Any]) -> None:
        """Unpacks the artifacts and the parameters and evaluates."""
        evaluation_dir = artifact_utils.get_single_uri(output_dict["evaluation"])
        options = EvaluationOptions.model_validate_json(exec_properties["options"])
        data_dirs = [examples.uri for examples in input_dict["examples"]]
        wanted = plan_collection(evaluation_dir, exec_properties["task"], options, data_dirs)
        with contextlib.nullcontext() if wanted is None else collect(wanted):
            super().Do(input_dict, output_dict, exec_properties)
        model_dir = path_utils.serving_model_path(
            artifact_utils.get_single_uri(input_dict["model"])
        )
        blessing_dir = artifact_utils.get_single_uri(output_dict["blessing"])
        blessed = files.exists(files.join(blessing_dir, "BLESSED"))
        task = exec_properties["task"]
        write_findings(evaluation_dir, task, wanted, model_dir, options, data_dirs, blessed)


class EvaluatorSpec(component_spec.ComponentSpec):
    """TFX's parameters, inputs and outputs, and what TFMA's configuration does not say."""

    PARAMETERS = standard_component_specs.EvaluatorSpec.PARAMETERS | {
        "options": component_spec.ExecutionParameter(type=str),
        "task": component_spec.ExecutionParameter(type=str),
        "code_version": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = standard_component_specs.EvaluatorSpec.INPUTS
    OUTPUTS = standard_component_specs.EvaluatorSpec.OUTPUTS


class Evaluator(base_beam_component.BaseBeamComponent):
    """Measures a model on the eval split, and blesses it if it is good enough."""

    SPEC_CLASS = EvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(EvaluatorExecutor)

    def __init__(
        self,
        examples: channel.BaseChannel,
        model: channel.BaseChannel,
        options: EvaluationOptions,
        task: str,
        baseline_model: channel.BaseChannel | None = None,
    ):
        """Declares the component.

        Args:
          examples: ImageExampleGen's output; the eval splits of all its artifacts are measured.
          model: the Trainer's output.
          options: when the model is good enough, and what is reported.
          task: the name of what it learns, one of `TASKS`.
          baseline_model: the model that it is compared with.
        """
        super().__init__(
            EvaluatorSpec(
                examples=examples,
                model=model,
                baseline_model=baseline_model,
                example_splits=json.dumps(["eval"]),
                eval_config=evaluation_config(options, TASKS[task]),
                module_path="image_pipeline.components.evaluation.counting",
                options=options.model_dump_json(),
                task=task,
                code_version=code_version("evaluation", "tasks"),
                evaluation=channel_utils.as_channel([standard_artifacts.ModelEvaluation()]),
                blessing=channel_utils.as_channel([standard_artifacts.ModelBlessing()]),
            )
        )
