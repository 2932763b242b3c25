"""How a step finds a data set of which Kubeflow's launcher has copied a pointer only.

Ingest leaves its data set in the store (`data_root` of `ImageExampleGen`), and a pointer in its
artifact's folder. All steps read the data set where it is, but for those in `DOWNLOADING`.
"""

from collections.abc import Mapping
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.dataset.complete import download_data_set
from image_pipeline.components.dataset.pointer import follow_pointer

DOWNLOADING = ("tfx.components.trainer.executor.GenericExecutor",)
"""Executors of the steps that have the data set on their own disk, if TensorFlow does not know the
store: training reads each record once an epoch, at random places by the index, as it does in a
local run. Without a name here, its step streams from the store."""


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
