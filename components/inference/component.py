"""ImagePredictor: the TFX contract of predictions for further images. No logic."""

from typing import Any

from tfx.components.util import model_utils
from tfx.dsl.components.base import base_component, base_executor, executor_spec
from tfx.types import (
    artifact_utils,
    channel,
    channel_utils,
    component_spec,
    standard_artifacts,
)
from tfx.utils import path_utils

from image_pipeline.components.beam.identifying_driver import IdentifyingDriver
from image_pipeline.components.function_version import code_version
from image_pipeline.components.inference.named_images import fingerprint_images
from image_pipeline.components.inference.options import InferenceOptions, options_for_others
from image_pipeline.components.inference.predict import write_predictions
from image_pipeline.components.meaning.options import IngestOptions


class ImagePredictorExecutor(base_executor.BaseExecutor):
    """Asks a blessed model."""

    def Do(self, input_dict: dict, output_dict: dict, exec_properties: dict[str, Any]) -> None:
        """Unpacks the artifacts and the parameters, and predicts, if the model passed."""
        blessing = artifact_utils.get_single_instance(input_dict["model_blessing"])
        if not model_utils.is_model_blessed(blessing):
            return
        model = artifact_utils.get_single_instance(input_dict["model"])
        predictions = artifact_utils.get_single_instance(output_dict["predictions"])
        counts = write_predictions(
            path_utils.serving_model_path(model.uri),
            predictions.uri,
            InferenceOptions.model_validate_json(exec_properties["options"]),
            IngestOptions.model_validate_json(exec_properties["ingest"]),
        )
        for name, count in counts.items():
            predictions.set_int_custom_property(name, count)


class ImagePredictorDriver(IdentifyingDriver):
    """Identifies the images, wherever they are, before TFX looks into its cache."""

    def identify(self, exec_properties: dict[str, Any]) -> dict[str, Any]:
        """The parameters, with the fingerprint of the images."""
        images = InferenceOptions.model_validate_json(exec_properties["options"]).images
        assert images is not None  # or there would be no such step
        ingest = IngestOptions.model_validate_json(exec_properties["ingest"])
        return exec_properties | {"fingerprint": fingerprint_images(images, ingest)}


class ImagePredictorSpec(component_spec.ComponentSpec):
    """Parameters, inputs and outputs of ImagePredictor."""

    PARAMETERS = {  # noqa: RUF012  (TFX's own way to declare them)
        "options": component_spec.ExecutionParameter(type=str),
        "ingest": component_spec.ExecutionParameter(type=str),
        "fingerprint": component_spec.ExecutionParameter(type=str),
        "code_version": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {  # noqa: RUF012
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "model_blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing),
    }
    OUTPUTS = {  # noqa: RUF012
        "predictions": component_spec.ChannelParameter(type=standard_artifacts.InferenceResult),
    }


class ImagePredictor(base_component.BaseComponent):
    """Predictions of the model that passed, for images that need not be labelled or ingested."""

    SPEC_CLASS = ImagePredictorSpec
    DRIVER_CLASS = ImagePredictorDriver
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(ImagePredictorExecutor)

    def __init__(
        self,
        model: channel.BaseChannel,
        model_blessing: channel.BaseChannel,
        options: InferenceOptions,
        ingest: IngestOptions | None = None,
    ):
        """Declares the component.

        Args:
          model: the Trainer's output.
          model_blessing: the Evaluator's.
          options: which images.
          ingest: how the images to train on are read, and these are prepared; None for the
            defaults.
        """
        super().__init__(
            ImagePredictorSpec(
                model=model,
                model_blessing=model_blessing,
                options=options.model_dump_json(),
                ingest=options_for_others(ingest or IngestOptions()).model_dump_json(),
                fingerprint="",  # The driver's to find.
                code_version=code_version("images", "inference", "ingest", "meaning"),
                predictions=channel_utils.as_channel([standard_artifacts.InferenceResult()]),
            )
        )
