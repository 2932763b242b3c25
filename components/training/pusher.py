"""TFX's Pusher, for every store that a data set may be in: its own knows TensorFlow's only."""

import pathlib
import tempfile
from typing import Any

from google.protobuf import json_format
from tfx import v1 as tfx
from tfx.components.pusher import executor as pusher
from tfx.dsl.components.base import executor_spec
from tfx.types import artifact_utils

from image_pipeline.components import files
from image_pipeline.components.dataset.checksums import copy_file

_DESTINATION, _PUSHED = "push_destination", "pushed_model"  # as TFX's Pusher calls them
_LAST = "saved_model.pb"
"""Whoever serves models takes one for whole as soon as it has this file."""


class PusherExecutor(pusher.Executor):
    """Pushes a blessed model."""

    def Do(self, input_dict: dict, output_dict: dict, exec_properties: dict[str, Any]) -> None:
        """Lets TFX push to a folder of this machine, which is then copied to the store."""
        destination = tfx.proto.PushDestination()
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
                copy_model(version, uri)
                pushed.set_string_custom_property("pushed_destination", uri)


def copy_model(folder: pathlib.Path, uri: str) -> None:
    """Copies a SavedModel's files to a store, the one that makes it whole at the end.

    Args:
      folder: on this machine.
      uri: the folder in the store.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in sorted(paths, key=lambda path: path.name == _LAST):
        copy_file(str(path), files.join(uri, path.relative_to(folder).as_posix()))


class Pusher(tfx.components.Pusher):
    """Copies a model that passed to where servers look for it."""

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(PusherExecutor)
