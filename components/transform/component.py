"""ImageTransform: the analysis's TFX contract. No logic."""

import os
from collections.abc import Mapping
from typing import Any

from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.types import (
    artifact_utils,
    channel,
    channel_utils,
    component_spec,
    standard_artifacts,
)

from image_pipeline.components import files
from image_pipeline.components.function_version import code_version, source_version
from image_pipeline.components.options import read_options
from image_pipeline.components.transform.kept_sums import find_latest
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions


class ImageTransformExecutor(base_beam_executor.BaseBeamExecutor):
    """Analyses into the transform graph artifact."""

    def Do(self, input_dict: dict, output_dict: dict, exec_properties: dict[str, Any]) -> None:
        """Unpacks the artifacts and the parameters and analyses."""
        graph_dir = artifact_utils.get_single_uri(output_dict["transform_graph"])
        run_analysis(
            [examples.uri for examples in input_dict["examples"]],
            graph_dir,
            ViewOptions.model_validate_json(exec_properties["view"]),
            TransformOptions.model_validate_json(exec_properties["options"]),
            self._make_beam_pipeline,
            exec_properties.get("cache_dir"),
            find_latest(os.path.dirname(graph_dir)),
        )


class ImageTransformSpec(component_spec.ComponentSpec):
    """Parameters, inputs and outputs of ImageTransform."""

    PARAMETERS = {  # noqa: RUF012  (TFX's own way to declare them)
        "view": component_spec.ExecutionParameter(type=str),
        "options": component_spec.ExecutionParameter(type=str),
        "code_version": component_spec.ExecutionParameter(type=str),
        "cache_dir": component_spec.ExecutionParameter(type=str, optional=True),
    }
    INPUTS = {  # noqa: RUF012
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
    }
    OUTPUTS = {  # noqa: RUF012
        "transform_graph": component_spec.ChannelParameter(type=standard_artifacts.TransformGraph),
    }


class ImageTransform(base_beam_component.BaseBeamComponent):
    """Computes what must be known about the whole data set, as a graph over uint8 pixel batches."""

    SPEC_CLASS = ImageTransformSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(ImageTransformExecutor)

    def __init__(
        self,
        examples: channel.BaseChannel,
        view: ViewOptions | Mapping[str, Any],
        options: TransformOptions | Mapping[str, Any] | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
    ):
        """Declares the component.

        Args:
          examples: ImageExampleGen's output; all its artifacts are analysed together.
          view: the model's input, or what of it is not the default, by its keys.
          options: of the analysis, likewise; None for its defaults.
          cache_dir: a folder or URI, the same for all runs, where the findings for each data set
            are kept, so that later runs read only new ones. For one run at a time. None keeps
            nothing. It is not an artifact that a Resolver passes on: every run would then have
            another input, and TFX would never reuse the transform graph, nor the model after it.
            The result is the same with and without it, so lineage loses nothing.

        Raises:
          UserError: if an option is unknown or wrong.
        """
        version = code_version("feeding", "order", "transform")
        chosen = read_options(TransformOptions, "transform", options)
        super().__init__(
            ImageTransformSpec(
                examples=examples,
                view=read_options(ViewOptions, "view", view).model_dump_json(),
                options=chosen.model_dump_json(),
                code_version=f"{version}-{source_version(chosen.preprocessing_fn)}",
                transform_graph=channel_utils.as_channel([standard_artifacts.TransformGraph()]),
                cache_dir=files.as_text(cache_dir),
            )
        )
