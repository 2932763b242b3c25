"""A step's container: TFX's own entry point, with artifacts where Kubeflow's launcher has them.

The launcher copies a step's inputs to folders of the pod before the step starts, and uploads what
the step left in those of its outputs (`LocalPathForURI` in `backend/src/v2/component/
launcher_v2.go`). TensorFlow and Beam open no `minio://`, and `s3://` not everywhere: so a step
whose artifacts are there works in these folders, and any store that Kubeflow can use will do. The
data set alone is not copied: ingest leaves it in the store (`data_root` of `ImageExampleGen`), and
a pointer in its artifact's folder. All steps read it where it is, but for those in `DOWNLOADING`.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.dataset.complete import download_data_set
from image_pipeline.components.dataset.pointer import follow_pointer
from image_pipeline.components.errors import UserError
from image_pipeline.kubeflow.parameters import set_values

MESSAGE = "--json_serialized_invocation_args"
"""The flag before what the launcher says of a step: `ExecutorInput`."""
COPIED = ("s3", "minio")
"""Schemes of stores that TensorFlow does not open, but the launcher copies from and to."""

DOWNLOADING = ("tfx.components.trainer.executor.GenericExecutor",)
"""Executors of the steps that have the data set on their own disk, if TensorFlow does not know the
store: training reads each record once an epoch, at random positions by the index, as it does in a
local run. Without a name here, its step reads from the store."""

_MINIO, _ADDRESSES = "minio://", ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")


def find_copy(uri: str, root: str = "/") -> str:
    """The folder of the pod that an artifact's URI is copied to or from; the URI, if it is not.

    Args:
      uri: of an artifact.
      root: the folder below which copies are; the launcher's is the disk's.
    """
    scheme, _, path = uri.partition("://")
    return os.path.join(root, scheme, path) if path and scheme in COPIED else uri


def name_stores(message: dict[str, Any]) -> None:
    """Writes `s3://` for `minio://` in a step's parameters: only Kubeflow tells them apart.

    Args:
      message: `ExecutorInput`, JSON's way; it is changed.

    Raises:
      UserError: if nothing says where the MinIO server is: Amazon would be asked.
    """
    values = message.get("inputs", {}).get("parameterValues", {})
    for name, value in values.items():
        if isinstance(value, str) and _MINIO in value:
            if not any(os.environ.get(variable) for variable in _ADDRESSES):
                raise UserError(
                    f"{name} of this step is in a MinIO server, whose address must be in "
                    f"{_ADDRESSES[0]}, for example http://minio-service.kubeflow:9000; set it in "
                    "the configuration, under kubeflow.defaults.env, and compile again."
                )
            values[name] = value.replace(_MINIO, "s3://")


def map_artifacts(message: dict[str, Any], root: str = "/") -> dict[str, str]:
    """Gives all artifacts of a message the URIs of their copies.

    Args:
      message: `ExecutorInput`, JSON's way; it is changed. An input that was not copied keeps its
        URI: the launcher was told to leave it where it is.
      root: see `find_copy`.

    Returns:
      By the copies' folders, the URIs that they stand for.
    """
    uris = {}
    for side in ("inputs", "outputs"):
        for listed in message.get(side, {}).get("artifacts", {}).values():
            for artifact in listed["artifacts"]:
                copy = find_copy(artifact["uri"], root)
                if copy != artifact["uri"] and (side == "outputs" or os.path.exists(copy)):
                    uris[copy] = artifact["uri"]
                    artifact["uri"] = copy
    return uris


def follow_pointers(message: Mapping[str, Any], executor: str) -> dict[str, str]:
    """Gives the data sets of a step's inputs the URIs that they are read from.

    Args:
      message: `ExecutorInput`, JSON's way; it is changed.
      executor: the dotted path of the step's executor.

    Returns:
      By the folders of the data sets that were downloaded, the URIs that they stand for.

    Raises:
      UserError: if a data set was deleted or replaced, or the disk has no room for it.
    """
    copies = {}
    for listed in message.get("inputs", {}).get("artifacts", {}).values():
        for artifact in filter(_is_data_set, listed["artifacts"]):
            pointer = follow_pointer(artifact["uri"])
            if pointer is None:
                continue
            if executor in DOWNLOADING and not files.is_known_to_tensorflow(pointer.uri):
                # Below the pointer's folder, on the volume that the launcher copies to.
                artifact["uri"] = files.join(artifact["uri"], "data")
                download_data_set(pointer.uri, artifact["uri"])
                copies[artifact["uri"]] = pointer.uri
            else:
                artifact["uri"] = pointer.uri
    return copies


def _is_data_set(artifact: Mapping[str, Any]) -> bool:
    """Whether TFX knows it as Examples; engines write types in one of two ways."""
    kind = artifact.get("type", {})
    return "tfx.Examples" in kind.get("instanceSchema", kind.get("schemaTitle", ""))


def restore_uris(output: Any, uris: dict[str, str]) -> Any:
    """What a step wrote of its outputs, with URIs where their copies' folders are named."""
    if isinstance(output, dict):
        return {key: restore_uris(value, uris) for key, value in output.items()}
    if isinstance(output, list):
        return [restore_uris(value, uris) for value in output]
    if isinstance(output, str):
        for copy, uri in uris.items():
            if output == copy or output.startswith(f"{copy}/"):
                return uri + output[len(copy) :]
    return output


def run_step(arguments: Sequence[str], root: str = "/") -> None:
    """Runs a step as TFX's `kubeflow_v2_run_executor` does, on data sets where they are.

    Args:
      arguments: of the container's command: the executor, the launcher's message, Beam's flags.
      root: see `find_copy`.

    Raises:
      UserError: if the person who runs the pipeline can put it right.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in ("--executor_class_path", MESSAGE, "--json_serialized_inputs_spec_args"):
        parser.add_argument(flag)
    given, beam_args = parser.parse_known_args(arguments)
    message = json.loads(getattr(given, MESSAGE.lstrip("-")))
    name_stores(message)
    uris = map_artifacts(message, root)
    uris |= follow_pointers(message, given.executor_class_path)
    set_values(message.get("inputs", {}).get("parameterValues", {}))
    setattr(given, MESSAGE.lstrip("-"), json.dumps(message))
    # Late: importing TFX takes many seconds, and what is wrong above is told before.
    from tfx.orchestration.kubeflow.v2.container import kubeflow_v2_run_executor

    kubeflow_v2_run_executor.main((given, beam_args))
    if uris:
        path = message["outputs"]["outputFile"]
        output = restore_uris(json.loads(files.read_file(path)), uris)
        with files.write_atomically(path) as file:
            file.write(json.dumps(output).encode())


if __name__ == "__main__":
    try:
        run_step(sys.argv[1:])
    except UserError as error:
        sys.exit(f"Error: {error}")
