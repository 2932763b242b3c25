"""TFX's Pusher, for every store that a data set may be in: its own knows TensorFlow's only."""

import pathlib
import tempfile
from typing import Any

from google.protobuf import json_format
from tfx.components.pusher import component, executor
from tfx.dsl.components.base import executor_spec
from tfx.proto import pusher_pb2
from tfx.types import artifact_utils

from image_pipeline.components import files
from image_pipeline.components.tasks.signatures import MODEL_FILE
from image_pipeline.components.trees import send_tree

_DESTINATION, _PUSHED = "push_destination", "pushed_model"  # as TFX's Pusher calls them


class PusherExecutor(executor.Executor):
    """Pushes a blessed model."""

    def Do(self, input_dict: dict, output_dict: dict, exec_properties: dict[str, Any]) -> None:
        """Lets TFX push to a folder of this machine, which is then copied to the store."""
        destination = pusher_pb2.PushDestination()
        json_format.Parse(exec_properties[_DESTINATION], destination)
        base_dir = destination.filesystem.base_directory
        if files.is_known_to_tensorflow(base_dir):
            super().Do(input_dict, output_dict, exec_properties)
            return
        with tempfile.TemporaryDirectory() as folder:
            destination.filesystem.base_directory = folder
            local = json_format.MessageToJson(destination, preserving_proto_field_name=True)
            super().Do(input_dict, output_dict, exec_properties | {_DESTINATION: local})
            pushed = artifact_utils.get_single_instance(output_dict[_PUSHED])
            for version in pathlib.Path(folder).iterdir():  # None if the model was not blessed.
                uri = files.join(base_dir, version.name)
                send_tree(str(version), uri, last=MODEL_FILE)
                pushed.set_string_custom_property("pushed_destination", uri)


class Pusher(component.Pusher):
    """Copies a model that passed to where servers look for it."""

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(PusherExecutor)
