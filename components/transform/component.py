"""ImageTransform: the analysis's TFX contract. No logic."""

from typing import Any

from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.types import (
    artifact_utils,
    channel,
    channel_utils,
    component_spec,
    standard_artifacts,
)

from components.code_version import code_version
from components.transform.function_version import function_version
from components.transform.options import TransformOptions
from components.transform.run import run_analysis
from components.transform.span_cache import copy_cache
from components.view_options import ViewOptions

# Of the cache's channels, which exist only where the component is given `keep_cache`.
CACHE_INPUT = "analyzer_cache"
CACHE_OUTPUT = "updated_analyzer_cache"


class ImageTransformExecutor(base_beam_executor.BaseBeamExecutor):
    """Runs the analysis into the transform graph artifact."""

    def Do(self, input_dict: dict, output_dict: dict, exec_properties: dict[str, Any]) -> None:
        """Unpacks the artifacts and the parameters and analyses."""
        cache_dir = None
        if output_dict.get(CACHE_OUTPUT):
            cache_dir = artifact_utils.get_single_uri(output_dict[CACHE_OUTPUT])
            copy_cache([kept.uri for kept in input_dict.get(CACHE_INPUT) or []], cache_dir)
        run_analysis(
            [examples.uri for examples in input_dict["examples"]],
            artifact_utils.get_single_uri(output_dict["transform_graph"]),
            ViewOptions.model_validate_json(exec_properties["view"]),
            TransformOptions.model_validate_json(exec_properties["options"]),
            self._make_beam_pipeline,
            cache_dir,
        )


class ImageTransformSpec(component_spec.ComponentSpec):
    """Parameters, inputs and outputs of ImageTransform."""

    PARAMETERS = {  # noqa: RUF012  (TFX's own way to declare them)
        "view": component_spec.ExecutionParameter(type=str),
        "options": component_spec.ExecutionParameter(type=str),
        "code_version": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {  # noqa: RUF012
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
        CACHE_INPUT: component_spec.ChannelParameter(
            type=standard_artifacts.TransformCache, optional=True
        ),
    }
    OUTPUTS = {  # noqa: RUF012
        "transform_graph": component_spec.ChannelParameter(type=standard_artifacts.TransformGraph),
        CACHE_OUTPUT: component_spec.ChannelParameter(
            type=standard_artifacts.TransformCache, optional=True
        ),
    }


class ImageTransform(base_beam_component.BaseBeamComponent):
    """Computes what must be known of the whole data set, as a graph over uint8 pixel batches."""

    SPEC_CLASS = ImageTransformSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(ImageTransformExecutor)

    def __init__(
        self,
        examples: channel.BaseChannel,
        view: ViewOptions,
        options: TransformOptions,
        analyzer_cache: channel.BaseChannel | None = None,
        keep_cache: bool = False,
    ):
        """Declares the component.

        Args:
          examples: ImageExampleGen's output; all its artifacts are analysed together.
          view: the model's input.
          options: of the analysis.
          analyzer_cache: an earlier run's `updated_analyzer_cache` (by a Resolver): what it holds
            is not read again.
          keep_cache: whether there is an output `updated_analyzer_cache` for later runs.
        """
        cache = {CACHE_INPUT: analyzer_cache} if analyzer_cache is not None else {}
        if keep_cache or analyzer_cache is not None:
            kept = channel_utils.as_channel([standard_artifacts.TransformCache()])
            cache[CACHE_OUTPUT] = kept
        version = code_version("transform", "feeding")
        super().__init__(
            ImageTransformSpec(
                examples=examples,
                view=view.model_dump_json(),
                options=options.model_dump_json(),
                code_version=f"{version}-{function_version(options.preprocessing_fn)}",
                transform_graph=channel_utils.as_channel([standard_artifacts.TransformGraph()]),
                **cache,
            )
        )
