"""TFX's own components that run Beam jobs, with their jobs run as ours are.

Otherwise a run would wait forever for a job whose workers cannot start, workers with other code
would not be noticed, and an interrupted run would leave its job on the cluster. They read data sets
from the stores that we read, too.
"""

import contextlib
import copy
from typing import Any

import apache_beam as beam
from tfx.components.evaluator import component as evaluator_component
from tfx.components.evaluator import executor as evaluator
from tfx.components.statistics_gen import component as statistics_component
from tfx.components.statistics_gen import executor as statistics_gen
from tfx.dsl.components.base import base_beam_executor, executor_spec
from tfx.types import standard_artifacts

from image_pipeline.components import files
from image_pipeline.components.beam.job import JobPipeline
from image_pipeline.components.errors import UserError
from image_pipeline.components.stores.beam_reads import name_for_beam


class _JobExecutor(base_beam_executor.BaseBeamExecutor):
    """Hands its executor a `JobPipeline`."""

    def Do(self, input_dict: dict, output_dict: dict, exec_properties: dict[str, Any]) -> None:
        """Keeps the workers' sign beside the outputs, which they can write, while the job runs."""
        output = next(artifact for artifacts in output_dict.values() for artifact in artifacts)
        folder, _, name = output.uri.rstrip("/").rpartition("/")
        self._shared_dir = files.join(folder, f".begun-{name}")
        readable = input_dict | {"examples": list(map(_name_for_beam, input_dict["examples"]))}
        try:
            super().Do(readable, output_dict, exec_properties)
        finally:
            with contextlib.suppress(UserError, OSError):  # A leftover does no harm.
                files.delete_tree(self._shared_dir)

    def _make_beam_pipeline(self) -> beam.Pipeline:
        made = super()._make_beam_pipeline()
        return JobPipeline(made.runner, made.options, self._shared_dir)


def _name_for_beam(
    examples: standard_artifacts.Examples,
) -> standard_artifacts.Examples:
    """The artifact with a URI that Beam's sources read."""
    named = copy.deepcopy(examples)
    named.uri = name_for_beam(examples.uri)
    return named


class StatisticsGenExecutor(_JobExecutor, statistics_gen.Executor):
    """Computes statistics."""


class EvaluatorExecutor(_JobExecutor, evaluator.Executor):
    """Measures a model."""


class StatisticsGen(statistics_component.StatisticsGen):
    """Statistics of the columns that describe images."""

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(StatisticsGenExecutor)


class Evaluator(evaluator_component.Evaluator):
    """Measures a model, and blesses it if it is good enough."""

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(EvaluatorExecutor)
