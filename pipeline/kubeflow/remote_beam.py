"""Which steps' Beam work may be done elsewhere, by what workers there see."""

from collections.abc import Mapping
from typing import Any

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.errors import UserError
from image_pipeline.kubeflow.step import COPIED

_INGEST = "ImageExampleGen"
# Their workers write what Kubeflow's launcher uploads from the pod's disk.
_WRITING_HERE = ("StatisticsGen", "ImageTransform", "Evaluator")


def check_remote_beam(spec: Mapping[str, Any], pipeline_root: str) -> None:
    """Checks that workers elsewhere can write their step's outputs.

    Ingest's always can: it reads and writes the store itself. Other steps' outputs are a pod's
    folders, where the root is in a store that TensorFlow and Beam do not open.

    Args:
      spec: `pipelineSpec`, with each step's options.
      pipeline_root: the URI below which the steps' outputs are kept.

    Raises:
      UserError: if a step's workers cannot.
    """
    scheme = pipeline_root.partition("://")[0]
    for step in _WRITING_HERE if scheme in COPIED else ():
        flags = spec["deploymentSpec"]["executors"][f"{step}_executor"]["container"]["args"]
        runners = [flag for flag in flags if flag.startswith("--runner=")]
        if any(runner != LOCAL_BEAM_ARGS[0] for runner in runners):
            raise UserError(
                f"{step} must run Beam in its own pod, got {runners[-1]}: workers elsewhere do not "
                f"see the pod's folders, which its outputs below {scheme}:// are uploaded from; "
                f"give the runner to ingest alone (kubeflow.steps.{_INGEST}.beam_args), or use a "
                "root at gs://."
            )
