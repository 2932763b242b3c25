"""What only Kubernetes understands of the steps' options: the second part of Kubeflow's YAML."""

import types
from collections.abc import Mapping
from typing import Any

from image_pipeline.engine_options import KubeflowOptions, StepOptions

_DISK = "image-pipeline-disk"


def platform_spec(spec: Mapping[str, Any], options: KubeflowOptions) -> dict[str, Any]:
    """`PlatformSpec`, JSON's way.

    Args:
      spec: `pipelineSpec`, whose steps with containers are meant.
      options: of all steps.

    Returns:
      By executor what its pod is like; empty if no option says anything of pods.
    """
    executors: dict[str, Any] = {}
    for step in spec["root"]["dag"]["tasks"]:
        executor = f"{step}_executor"
        if "container" in spec["deploymentSpec"]["executors"].get(executor, {}):
            pod = make_pod(options.of_step(step))
            executors |= {executor: pod} if pod else {}
    if not executors:
        return {}
    return {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}


def make_pod(given: StepOptions) -> dict[str, Any]:
    """A step's pod, `KubernetesExecutorConfig`, JSON's way; empty if nothing is said of it.

    It is written by the functions of `kfp-kubernetes`, which change a task's `platform_config`: of
    a task of TFX's there is nothing else that they need.
    """
    from kfp import kubernetes

    task: Any = types.SimpleNamespace(platform_config={})
    if given.timeout_s is not None:
        kubernetes.set_timeout(task, given.timeout_s)
    for label, value in given.node_selector.items():
        kubernetes.add_node_selector(task, label, value)
    for each in given.tolerations:
        kubernetes.add_toleration(task, each.key, each.operator, each.value, each.effect)
    for secret, variables in given.secret_env.items():
        kubernetes.use_secret_as_env(task, secret, variables)
    for secret, path in given.secret_files.items():
        kubernetes.use_secret_as_volume(task, secret, path)
    for claim, path in given.volume_claims.items():
        kubernetes.mount_pvc(task, claim, path)
    if (disk := given.disk) is not None:
        modes = ["ReadWriteOnce"]
        kubernetes.add_ephemeral_volume(
            task, _DISK, disk.mount_path, modes, disk.size, disk.storage_class
        )
    return task.platform_config.get("kubernetes", {})
