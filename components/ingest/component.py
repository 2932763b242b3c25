"""ImageExampleGen: ingest's TFX contract. No logic."""

import hashlib
import json
from typing import Any

from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, channel_utils, component_spec, standard_artifacts

from components import files
from components.code_version import code_version
from components.ingest.options import IngestOptions
from components.ingest.run import run_ingest


class ImageExampleGenExecutor(base_beam_executor.BaseBeamExecutor):
    """Runs ingest into the examples artifact."""

    def Do(self, input_dict: dict, output_dict: dict, exec_properties: dict[str, Any]) -> None:
        """Unpacks the artifact and the parameters and ingests."""
        examples = artifact_utils.get_single_instance(output_dict["examples"])
        options = IngestOptions.model_validate_json(exec_properties["options"])
        manifest = run_ingest(
            exec_properties["images_dir"],
            examples.uri,
            _work_dir(examples.uri, exec_properties),
            options,
            self._make_beam_pipeline,
        )
        examples.split_names = artifact_utils.encode_split_names(list(manifest["splits"]))
        examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)


def _work_dir(examples_uri: str, exec_properties: dict[str, Any]) -> str:
    """Beside the outputs of all executions, so that the next one goes on after a failed one."""
    name = hashlib.sha256(json.dumps(exec_properties, sort_keys=True).encode()).hexdigest()[:16]
    return files.join(examples_uri.rstrip("/").rpartition("/")[0], f".work-{name}")


class ImageExampleGenSpec(component_spec.ComponentSpec):
    """Parameters and outputs of ImageExampleGen."""

    PARAMETERS = {  # noqa: RUF012  (TFX's own way to declare them)
        "images_dir": component_spec.ExecutionParameter(type=str),
        "options": component_spec.ExecutionParameter(type=str),
        "fingerprint": component_spec.ExecutionParameter(type=str),
        "code_version": component_spec.ExecutionParameter(type=str),
    }
    INPUTS: dict = {}  # noqa: RUF012
    OUTPUTS = {  # noqa: RUF012
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)
    }


class ImageExampleGen(base_beam_component.BaseBeamComponent):
    """Brings a folder of raw images into TFX as shuffled, sharded, uncompressed TFRecords."""

    SPEC_CLASS = ImageExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(ImageExampleGenExecutor)

    def __init__(
        self,
        images_dir: str,
        options: IngestOptions,
        fingerprint: str | data_types.RuntimeParameter = "",
    ):
        """Declares the component.

        Args:
          images_dir: the folder of images, or its URI.
          options: of ingest.
          fingerprint: of the images (`sources.fingerprint_refs`). TFX re-uses the outputs of an
            earlier run with the same parameters, so a changed folder must change one of them. A
            pipeline compiled ahead of its runs takes it as a parameter of each run.
        """
        super().__init__(
            ImageExampleGenSpec(
                images_dir=images_dir,
                options=options.model_dump_json(),
                fingerprint=fingerprint,
                code_version=code_version("images", "ingest"),
                examples=channel_utils.as_channel([standard_artifacts.Examples()]),
            )
        )
